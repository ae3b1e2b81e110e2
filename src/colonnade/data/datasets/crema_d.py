"""CREMA-D: what a crowd heard and saw in 7,442 acted clips."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

from colonnade.data.datasets.dataset import Dataset, column
from colonnade.data.datasets.files import find, need
from colonnade.data.datasets.loader import Source, dataset
from colonnade.data.datasets.tables import read_table
from colonnade.errors import DataError

MODALITIES = ("voice", "face", "av")
EMOTIONS = ("anger", "disgust", "fear", "happy", "neutral", "sad")
CODES = ("ANG", "DIS", "FEA", "HAP", "NEU", "SAD")
_CLIP = re.compile(rf"\d+_(\w+)_({'|'.join(CODES)})_(\w+)")
_PUBLISHED = {
    **{emotion[0].upper(): f"votes_{emotion}" for emotion in EMOTIONS},
    "numResponses": "n",
    **{f"mean{emotion.capitalize()}Resp": f"level_{emotion}" for emotion in EMOTIONS},
    "meanEmoResp": "level_mean",
    "medianEmoResp": "level_median",
}
"""Columns of tabulatedVotes.csv and what they are called here; a level of -1 means that nobody voted so."""


@dataset("crema_d", Source("the CREMA-D repository of Cheyney University (Cao et al. 2014)", "ODbL 1.0, contents DbCL"))
def crema_d(folder: Path) -> Dataset:
    """Acted emotions as a crowd rated voice, face and both (tabulatedVotes.csv, VideoDemographics.csv, or .parquet)."""
    packed = find(folder, "crema_d_ratings.parquet")
    votes = find(folder, "processedResults/tabulatedVotes.csv", "tabulatedVotes.csv")
    if packed is not None and votes is None:
        frame = read_table(packed, ["clip_id", "actor_id", "age", "sex", "race", "ethnicity"]).set_index("clip_id")
        modalities = {name: _block(frame, name) for name in MODALITIES}
        people = frame[["actor_id", "age", "sex", "race", "ethnicity"]]
    else:
        modalities = _votes(need(folder, "processedResults/tabulatedVotes.csv", "tabulatedVotes.csv"))
        people = _people(need(folder, "VideoDemographics.csv"), modalities["voice"].index)
    names = _parts_of_names(people.index)
    return Dataset(
        ids=people.index,
        modalities=modalities,
        label=column(names["emotion"].map(CODES.index), people.index, "label"),
        classes=EMOTIONS,
        attributes=people.join(names.drop(columns="emotion")),
        secrets=("sex", "age", "race", "ethnicity"),
    )


def _parts_of_names(clips: pd.Index) -> pd.DataFrame:
    """Split names such as '1001_IEO_ANG_HI' into what was said, how it was meant, and how strongly."""
    matches = [_CLIP.fullmatch(str(clip)) for clip in clips]
    if not all(matches):
        strange = next(str(clip) for clip, match in zip(clips, matches, strict=True) if match is None)
        raise DataError(f"'{strange}' is no name of a clip (actor, sentence, emotion, intensity)")
    parts = [match.groups() for match in matches if match]
    return pd.DataFrame(parts, index=clips, columns=["sentence", "emotion", "intensity"])


def _votes(path: Path) -> dict[str, pd.DataFrame]:
    table = read_table(path, ["fileName", *_PUBLISHED], index_col=0, low_memory=False)
    # A row is numbered 100000 x modality + clip: 1 voice only, 2 face only, 3 both.
    modality = table.index // 100_000
    blocks = {
        name: table[modality == number].set_index("fileName")[list(_PUBLISHED)].sort_index()
        for number, name in enumerate(MODALITIES, start=1)
    }
    clips = blocks["voice"].index.rename("clip_id")
    for name, block in blocks.items():
        if not block.index.equals(clips):
            raise DataError(f"the clips rated by {name} are not those rated by voice", where=str(path))
    return {
        name: block.set_axis([f"{name}_{_PUBLISHED[str(column)]}" for column in block], axis=1).set_axis(clips)
        for name, block in blocks.items()
    }


def _people(path: Path, clips: pd.Index) -> pd.DataFrame:
    table = read_table(path, ["ActorID", "Age", "Sex", "Race", "Ethnicity"]).rename(columns=str.lower)
    actors = pd.Index([int(str(clip).split("_")[0]) for clip in clips])
    if unknown := set(actors) - set(table["actorid"]):
        raise DataError(f"actor {min(unknown)} is not in the list", where=str(path))
    people = table.set_index("actorid").loc[actors].set_axis(clips)
    people.insert(0, "actor_id", actors)
    return people


def _block(frame: pd.DataFrame, modality: str) -> pd.DataFrame:
    return frame[[name for name in frame.columns if name.startswith(f"{modality}_")]]
