"""If these fail, defenses are called safe from attackers who know them, because nobody who knew them tried."""

from __future__ import annotations

import pytest
import torch
from audit_parts import picture_model, table_model
from torch import nn

import colonnade as co
from colonnade.attack import Knowledge
from colonnade.audit.challenge import export_challenge
from colonnade.audit.evidence import before_training
from colonnade.audit.held_out import held_out_of
from colonnade.errors import ConfigError

BY_BOTTOM = [
    {"name": "soteria", "rate": 0.5},
    {"name": "invl_dnp", "rank": 4},
    {"name": "invl_enp", "rank": 4},
    {"name": "causshield", "surrogate": "jitter", "rounds": 1},
]
RECORDS = {Knowledge.DEFENSE_OPERATOR, Knowledge.AUXILIARY_RECORDS}


def names(defense):
    return defense["name"]


def told(model, granted, seed=0):
    """What an attacker is granted about the left half, and the records that it knows."""
    bottom, held = model.parts["left"].bottom, held_out_of(model, None, None)
    evidence = before_training("left", bottom, held, seed=seed).only(granted, where="test")
    return evidence, bottom.features(held.records["left"])


@pytest.mark.parametrize("defense", BY_BOTTOM, ids=names)
def test_who_knows_a_defense_puts_it_behind_a_shadow_and_learns_through_it(defense):
    model = picture_model(defense=defense)
    evidence, known = told(model, RECORDS)
    shadow, x = nn.Conv2d(1, 4, 3, padding=1), known[:20]
    operate = evidence.operator_behind(shadow)
    h = shadow(x)
    upload = operate(x, h)
    assert upload.shape == h.shape and not torch.equal(upload, h)
    upload.square().sum().backward()
    assert shadow.weight.grad.abs().sum() > 0
    with torch.no_grad():
        assert torch.isfinite(operate(x, shadow(x))).all(), "an insider imitates without gradients too"


def test_behind_the_victims_own_bottom_it_does_what_the_victim_does():
    """An imitation of something else would say nothing: Soteria's mask follows from bottom and record."""
    model = picture_model(defense={"name": "soteria", "rate": 0.5})
    bottom, (evidence, known) = model.parts["left"].bottom, told(model, RECORDS)
    network = bottom.network.eval()
    h = network(known[:5]).detach()
    assert h[0].numel() <= 256, "so few entries are scored exactly, without draws"
    imitated = evidence.operator_behind(network)(known[:5], h)
    assert torch.equal(imitated == 0, bottom.defense.protect(known[:5], h, train=False) == 0)


def test_two_victims_are_imitated_with_draws_of_their_own():
    model = picture_model(defense={"name": "invl_enp", "rank": 4})
    held, shadow = held_out_of(model, None, None), nn.Conv2d(1, 4, 3, padding=1)
    x = torch.rand(20, 1, 8, 4)
    left, right = (
        before_training(party, model.parts[party].bottom, held, seed=0).operator_behind(shadow)(x, shadow(x))
        for party in ("left", "right")
    )
    assert not torch.allclose(left, right)


@pytest.mark.parametrize("defense", BY_BOTTOM, ids=names)
@pytest.mark.parametrize("attack", ["unsplit", "urvfl"])
def test_adaptive_attacks_try_what_they_were_kept_from(attack, defense):
    """The paper's own defense, and both rivals of its Table II, were never tried by anybody who knew them."""
    model = picture_model(defense=defense)
    chosen = {"name": attack, "preset": "smoke", "adaptive": True}
    if (attack, defense["name"]) == ("unsplit", "causshield"):
        with pytest.raises(ConfigError, match=r"defense_operator.*wants records"):
            co.audit(model, chosen, seeds=1, targets=8, progress=False)
        return
    found = co.audit(model, chosen, seeds=1, auxiliary=0.7, progress=False).frame
    mine = found[found["attack"] == attack]
    assert set(mine["knowledge"]) == {"adaptive"} and mine["mse"].notna().all()


def test_on_tables_too():
    found = co.audit(
        table_model({"lab": {"name": "invl_enp", "rank": 2}}),
        {"name": "unsplit", "preset": "smoke", "adaptive": True},
        seeds=1, targets=8, progress=False,
    ).frame  # fmt: skip
    assert found[found["attack"] == "unsplit"]["mse"].notna().all()


def test_what_was_learned_in_secret_is_imitated_by_nobody():
    model = picture_model(defense="disco")
    with pytest.raises(ConfigError, match="where a defense keeps secrets"):
        co.audit(model, {"name": "urvfl", "preset": "smoke", "adaptive": True}, seeds=1, targets=8, progress=False)


def test_a_folder_can_not_hold_what_hangs_on_a_bottom(tmp_path):
    model = picture_model(defense={"name": "soteria", "rate": 0.5})
    granted = ["uploads", "defense_operator"]
    with pytest.raises(ConfigError, match="'soteria' does hangs on a bottom model"):
        export_challenge(model, granted, tmp_path / "a", truth=tmp_path / "b", party="left", targets=8)
    assert not (tmp_path / "a").exists()
