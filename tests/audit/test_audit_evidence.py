"""What attacks are granted: if these fail, an audit lets attackers off with less than they would know."""

from dataclasses import replace

import pytest
import torch
from audit_parts import picture_model

from colonnade.attack.evidence import Knowledge
from colonnade.audit.evidence import before_training
from colonnade.audit.held_out import held_out_of
from colonnade.nets.veil import Veil


@pytest.fixture(scope="module")
def model():
    return picture_model(defense={"name": "keystone", "veil": 4})


def veil_in(network):
    return next(part for part in network.modules() if isinstance(part, Veil))


def test_imitators_fit_a_veil_on_the_records_they_know(model):
    """Attacks that imitate a bottom model would learn from pictures that the victim never shows its own."""
    bottom, known = model.parts["left"].bottom, held_out_of(model, None, None)
    imitation = veil_in(before_training("left", bottom, known, seed=0).bottom_factory(3))
    expected = Veil((1, 8, 4), 4)
    expected.fit(bottom.features(known.records["left"]))
    torch.testing.assert_close(imitation.directions.abs(), expected.directions.abs())
    assert not torch.equal(imitation.mean, veil_in(bottom.network).mean), "the victim's own stays at home"


def test_who_is_granted_no_records_learns_nothing_of_them_through_a_veil(model):
    """UnSplit knows how a victim is built and no more: its guesses may not start from records it never had."""
    bottom, known = model.parts["left"].bottom, held_out_of(model, None, None)
    everything = before_training("left", bottom, known, seed=0)
    blind = everything.only({Knowledge.ARCHITECTURE}, where="unsplit").bottom_factory(3)
    assert not veil_in(blind).mean.any() and not veil_in(blind).directions.any()
    both = everything.only({Knowledge.ARCHITECTURE, Knowledge.AUXILIARY_RECORDS}, where="fsha").bottom_factory(3)
    assert veil_in(both).mean.any()


def test_imitators_with_too_few_records_have_none():
    model = picture_model(defense={"name": "keystone", "veil": 30})
    bottom, known = model.parts["left"].bottom, held_out_of(model, None, None)
    few = {party: records.take(range(20)) for party, records in known.records.items()}
    imitation = veil_in(before_training("left", bottom, replace(known, records=few), seed=0).bottom_factory(3))
    assert not imitation.directions.any()
