"""What `colonnade init` writes: a federation file and one file per party, explained line by line."""

from __future__ import annotations

from collections.abc import Sequence

import yaml

FIRST_PORT = 7101

_FEDERATION = """\
# {name}: the same file at every party. Every party compares it with the others' before anything is sent.
# 'colonnade check federation.yaml --party {active_file}.yaml' tells every problem at once.

name: {name}

# Who takes part. address: where the others reach the party. fingerprint: of its certificate, as 'colonnade keys'
# prints it; null accepts any certificate that the federation's CA gave to that name.
parties:
{parties}
# The active party holds the label; the others (passive) hold columns only.
active: {active}
label: {label}

task:
  kind: auto            # auto, binary, multiclass or regression; auto decides from the label
  network:
    family: mlp         # mlp for tables; mnist_net, resnet18 or resnet34 for images
    hidden: [64, 32, 32]
  optimizer:
    name: adam          # sgd, adam or adamw
    learning_rate: 0.001
  split:                # shares of the aligned records
    train: 0.8
    validation: 0.1
    test: 0.1
  epochs: 20
  batch_size: 256
  patience: null        # stop after so many epochs without a better validation loss
  missing: drop         # records that a party lacks: drop or impute
  protection: null      # the defense that every passive party must use; null leaves it to each
  checkpoint_every: 100 # steps

seed: 0
heartbeat: 5            # seconds after which a silent party counts as lost
"""

_ENTRY = """\
  {party}:
    address: 127.0.0.1:{port}
    fingerprint: null
"""

_PARTY = """\
# {folder}'s own file: nobody else needs to see it. Paths are meant from this file's folder.

party: {party}          # who I am in federation.yaml

data:
  path: {folder}.csv    # .csv, .csv.gz or .parquet; for images an .npz file or a folder of <id>.png
  id_column: id         # the ids that align my records with those of the others
  columns: null         # a list of columns to take part with; null takes all but the id and the label
  kind: table           # table or images

sensitive: []           # columns whose values the others must not learn

defense:
  name: none            # how my uploads are protected, such as gaussian; further keys are its strength

device: auto            # auto, cpu or cuda
runs: runs/{folder}     # the folder of my runs

# 'colonnade keys' makes these. Never send the key to anybody.
credentials:
  ca: keys/{folder}/ca.pem
  certificate: keys/{folder}/certificate.pem
  key: keys/{folder}/key.pem

listen: null            # another address to listen on than the one in federation.yaml, such as 0.0.0.0:{port}
missing_party: refuse   # when predicting without some party: refuse, or impute its upload and say so
"""


def federation_template(name: str, parties: Sequence[str], active: str, label: str) -> str:
    """Return the text of a `federation.yaml`."""
    entries = "".join(_ENTRY.format(party=_scalar(party), port=FIRST_PORT + n) for n, party in enumerate(parties))
    return _FEDERATION.format(
        name=_scalar(name), parties=entries, active=_scalar(active), active_file=active, label=_scalar(label)
    )


def party_template(parties: Sequence[str], party: str) -> str:
    """Return the text of one party's file."""
    port = FIRST_PORT + list(parties).index(party)
    return _PARTY.format(party=_scalar(party), folder=party, port=port)


def _scalar(text: str) -> str:
    """Write text as YAML, in quotes only where it would be taken for something else."""
    return yaml.safe_dump(text, allow_unicode=True, width=1000).removesuffix("...\n").strip()
