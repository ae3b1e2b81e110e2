"""If these fail, figure 5 promises a privacy that the noise does not buy, or hides what all looks cost together."""

import pytest

from colonnade.bench.causal.generator import Design
from colonnade.bench.causal.privacy import _variants
from colonnade.bench.causal.sets import fresh
from colonnade.bench.causal.watched import Watched
from colonnade.bench.discovery_leak import Case
from colonnade.bench.registry import BENCHES
from colonnade.progress import Progress


def test_every_published_level_is_run_against_party_and_coordinator():
    variants = list(_variants("default", 1000))
    assert {variant.keys["attackers"] for variant in variants} == {"party and coordinator"}
    said = {
        variant.keys["epsilon"]: variant.published[::3]
        for variant in variants
        if variant.keys["attack"] == "unsplit" and "acyclicity" not in variant.method.name
    }
    assert said == {None: (42, 0.804), 256.0: (44, 0.660), 128.0: (46, 0.458), 64.0: (47, 0.119)}
    without = [variant for variant in variants if "no acyclicity" in variant.method.name]
    assert all(variant.method.settings["growth"] == 0 and variant.published.shd == 62 for variant in without)


def test_what_all_looks_cost_is_said():
    for variant in _variants("default", 1000):
        epsilon, spent = variant.keys["epsilon"], variant.keys["epsilon_spent"]
        seen = {"default": 80, "paper": 31_500}[variant.keys["recipe"]]
        assert variant.keys["looks"] == seen and spent == (None if epsilon is None else epsilon * seen)
        assert variant.method.settings.get("strength_epsilon") == epsilon


def test_noise_reaches_what_the_coordinator_tells():
    data = fresh(Design(6, 8, records=200), seed=1, parties=2)
    attack = Case("coordinator", "party and coordinator")
    short = {"epochs": 20, "refit_epochs": 5}
    clear, again, noisy = (
        Watched("w", attack, {**short, **noise}).score(data, 0)["correlation"]
        for noise in ({}, {}, {"strength_epsilon": 16.0})
    )
    assert clear == again == pytest.approx(1, abs=1e-6)
    assert noisy != clear


def test_the_figure_comes_out_with_all_baselines():
    rows = BENCHES["vfedcd-fig5"]("smoke", Progress())
    means = {row["method"]: row for row in rows if row["seed"] is None}
    assert {"unsplit, no noise", "unsplit, epsilon 64", "permuted records", "random", "empty"} <= set(means)
    assert means["coordinator, no noise"]["correlation"] == 1
    assert all(row["parties"] == 2 for row in rows)
