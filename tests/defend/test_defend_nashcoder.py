"""NashCoder: if these fail, a party believes its secret hidden, and its bottom model never tried to hide it."""

from __future__ import annotations

import copy
import inspect
import json
import math

import numpy as np
import pandas as pd
import pytest
import torch
from learned_parts import SGD, copied, dense_bottom, images, one_step, seeded, vectors
from sklearn.linear_model import LogisticRegression
from torch import nn
from torch.nn import functional

import colonnade as co
from colonnade.data.secrets import UNKNOWN, Secret
from colonnade.defend import DEFENSES, make_defense
from colonnade.defend.nashcoder import COSTS, HIDDEN, NashCoder, surrogate_head
from colonnade.errors import ConfigError
from colonnade.learn.bottom import Bottom
from colonnade.learn.checkpoint import read_tensors, write_tensors
from colonnade.nets.weights import initialised

COUNT = 32


def sex(count=COUNT):
    return Secret("sex", (torch.arange(count) % 2).numpy(), 2)


def colour(count=COUNT):
    return Secret("colour", torch.randint(3, (count,), generator=seeded(5)).numpy(), 3)


def age(count=COUNT):
    return Secret("age", torch.randn(count, generator=seeded(6)).numpy(), 0)


def with_gaps(secret, every=3):
    """The same secret, unknown at every so manieth record."""
    values = secret.values.copy()
    values[::every] = UNKNOWN if secret.classes else np.nan
    return Secret(secret.name, values, secret.classes)


def at_work(defense, secrets, data=None, bottom=None, seed=0):
    """A bottom model under NashCoder, as a training run sets it up."""
    data = vectors(COUNT) if data is None else data
    bottom = dense_bottom() if bottom is None else bottom
    defense.seed(seed)
    network = defense.extend(bottom, tuple(data.shape[1:]))
    made = Bottom(network, data, defense, settings=SGD, device=torch.device("cpu"))
    defense.confide(secrets)
    defense.prepare(made.network, made.features)
    return made


def pressed(defense, secrets, upload, grad, rows=None, seed=0):
    """The gradient that reaches a representation which is uploaded as it is."""
    if not defense._heads:
        defense.seed(seed)
        defense.confide(secrets)
    h = upload.clone().requires_grad_()
    defense.turn_to(torch.arange(len(upload)) if rows is None else rows)
    defense.backward(upload, h, h, grad)
    return h.grad


# -- costs -------------------------------------------------------------------------------------------------------------


def slow_cost(name, outputs, secret, classes):
    """One record after the other, in plain numbers."""
    costs = []
    for answer, truth in zip(outputs.tolist(), secret.tolist(), strict=True):
        if not classes:
            loss = (answer[0] - truth) ** 2
            costs.append({"neg_ce": -loss, "capped_ce": -min(loss, 1.0), "neg_kl_uniform": answer[0] ** 2}[name])
            continue
        total = sum(math.exp(value) for value in answer)
        chances = [math.exp(value) / total for value in answer]
        loss = -math.log(chances[truth])
        distance = sum((1 / classes) * math.log((1 / classes) / chance) for chance in chances)
        costs.append({"neg_ce": -loss, "capped_ce": -min(loss, math.log(classes)), "neg_kl_uniform": distance}[name])
    return sum(costs) / len(costs)


@pytest.mark.parametrize("classes", [2, 3, 0])
@pytest.mark.parametrize("name", list(COSTS))
def test_costs_are_what_a_slow_reader_of_the_formula_gets(name, classes):
    outputs = 2 * torch.randn(50, classes or 1, generator=seeded(1))
    secret = torch.randint(classes, (50,), generator=seeded(2)) if classes else torch.randn(50, generator=seeded(2))
    found = COSTS[name](outputs, secret, classes).item()
    assert found == pytest.approx(slow_cost(name, outputs, secret, classes), rel=1e-5)


def test_a_head_that_is_surely_wrong_is_worth_no_more_than_one_that_knows_nothing():
    """A fresh attacker would turn its answers around; the published cost pays for them without end."""
    wrong, blind = torch.tensor([[20.0, 0.0]]), torch.tensor([[0.0, 0.0]])
    truth = torch.tensor([1])
    assert COSTS["capped_ce"](wrong, truth, 2) == COSTS["capped_ce"](blind, truth, 2)
    assert COSTS["neg_ce"](wrong, truth, 2) < COSTS["neg_ce"](blind, truth, 2)
    assert COSTS["neg_kl_uniform"](blind, truth, 2).item() == pytest.approx(0, abs=1e-6)


# -- Eq. 4 and 5 -------------------------------------------------------------------------------------------------------

SECRETS = {
    "two classes": lambda: [sex()],
    "a quantity": lambda: [age()],
    "several": lambda: [sex(), colour(), age()],
    "with gaps": lambda: [with_gaps(sex()), with_gaps(age(), 2)],
}


@pytest.mark.parametrize("sigma", [0.0, 1.0])
@pytest.mark.parametrize("cost", list(COSTS))
@pytest.mark.parametrize("kind", list(SECRETS))
def test_the_bottom_follows_the_task_and_alpha_times_the_cost_of_its_secrets(kind, cost, sigma):
    """Eq. 5, with the head that stands there afterwards, differentiated in one go through a twin of the bottom."""
    secrets, alpha, grad = SECRETS[kind](), 0.7, torch.randn(COUNT, 10, generator=seeded(7)) / COUNT
    made, twin = (at_work(NashCoder(alpha, cost, sigma=sigma), secrets) for _ in range(2))
    made.upload(torch.arange(COUNT), train=True)
    made.learn(grad, rate=0.0)
    upload = twin.defense.protect(twin.features, twin.network(twin.features), train=True)
    objective = (upload * grad).sum()
    for secret, head in zip(secrets, made.defense._heads, strict=True):
        values = torch.from_numpy(secret.values)
        known = values != UNKNOWN if secret.classes else ~values.isnan()
        objective = objective + alpha * COSTS[cost](head.network(upload[known]), values[known], secret.classes)
    expected = torch.autograd.grad(objective, list(twin.network.parameters()))
    for parameter, slope in zip(made.network.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, slope, atol=1e-6, rtol=1e-5)


def test_the_head_learns_from_the_upload_as_it_is():
    """Eq. 4: three steps of Adam by hand, from the weights that the defense's stream gives."""
    upload = vectors(COUNT, 10)
    defense = NashCoder(head_steps=3, head_rate=0.01, sigma=0.0)
    pressed(defense, [colour()], upload, torch.zeros(COUNT, 10))
    seed = int(torch.randint(2**62, (), generator=seeded(0)))
    by_hand = initialised(lambda: surrogate_head((10,), 3), seed)
    adam = torch.optim.Adam(by_hand.parameters(), lr=0.01)
    for _ in range(3):
        adam.zero_grad()
        functional.cross_entropy(by_hand(upload), torch.from_numpy(colour().values)).backward()
        adam.step()
    for found, expected in zip(defense._heads[0].network.parameters(), by_hand.parameters(), strict=True):
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)


class TurnedRound(torch.autograd.Function):
    """The usual reversal layer."""

    @staticmethod
    def forward(context, x, alpha):
        context.alpha = alpha
        return x.clone()

    @staticmethod
    def backward(context, slope):
        return -context.alpha * slope, None


def test_reversal_is_one_pass_through_a_layer_that_turns_gradients_round():
    upload, grad = vectors(COUNT, 10), torch.randn(COUNT, 10, generator=seeded(7)) / COUNT
    defense = NashCoder(0.7, "neg_ce", sigma=0.0, reversal=True, head_rate=0.01)
    found = pressed(defense, [sex()], upload, grad)
    seed = int(torch.randint(2**62, (), generator=seeded(0)))
    head, h = initialised(lambda: surrogate_head((10,), 2), seed), upload.clone().requires_grad_()
    adam = torch.optim.Adam(head.parameters(), lr=0.01)
    loss = functional.cross_entropy(head(TurnedRound.apply(h, 0.7)), torch.from_numpy(sex().values))
    (loss + (h * grad).sum()).backward()
    adam.step()
    torch.testing.assert_close(found, h.grad, atol=1e-7, rtol=1e-5)
    for one, other in zip(defense._heads[0].network.parameters(), head.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("secret", [sex(), age()], ids=["classes", "quantity"])
def test_records_whose_secret_is_missing_feel_the_task_alone(secret):
    grad = torch.randn(COUNT, 10, generator=seeded(7)) / COUNT
    found = pressed(NashCoder(5.0, "neg_ce", sigma=0.0), [with_gaps(secret)], vectors(COUNT, 10), grad)
    missing = torch.arange(COUNT) % 3 == 0
    assert torch.equal(found[missing], grad[missing])
    assert not (found[~missing] == grad[~missing]).all(1).any()


def test_the_rows_of_the_batch_say_whose_secret_it_is():
    """A batch in another order, with its secrets, must press alike: secrets are found by row, not by place."""
    order = torch.randperm(COUNT, generator=seeded(8))[:10]
    upload, grad = vectors(COUNT, 10)[order], torch.zeros(10, 10)
    picked = Secret("sex", sex().values[order.numpy()], 2)
    by_row = pressed(NashCoder(sigma=0.0), [sex()], upload, grad, rows=order)
    by_place = pressed(NashCoder(sigma=0.0), [picked], upload, grad)
    assert torch.equal(by_row, by_place)


def test_a_batch_in_which_nobody_has_the_secret_changes_nothing():
    nothing = Secret("sex", np.full(COUNT, UNKNOWN), 2)
    grad = torch.randn(COUNT, 10, generator=seeded(7))
    defense = NashCoder(sigma=0.0)
    assert torch.equal(pressed(defense, [nothing], vectors(COUNT, 10), grad), grad)
    assert defense.meters() == {}


# -- what it does to a bottom model ------------------------------------------------------------------------------------


def found_by_a_fresh_reader(made, secret):
    """How often logistic regression, which never met the bottom, guesses the secret of records it has not seen."""
    upload, half = made.upload(torch.arange(len(made.features)), train=False).numpy(), len(made.features) // 2
    reader = LogisticRegression(max_iter=1000).fit(upload[:half], secret.values[:half])
    return reader.score(upload[half:], secret.values[half:])


def test_a_secret_that_the_task_does_not_need_is_unlearned():
    """The first column is the secret, the second the task: one goes, the other stays."""
    x, found = vectors(800), {}
    secret, target = Secret("sex", (x[:, 0] > 0).long().numpy(), 2), (x[:, 1] > 0).long()
    for alpha in (0.0, 1.0):
        made, top = at_work(NashCoder(alpha, sigma=0.5, head_rate=0.01), [secret], x), dense_bottom(10, 2)[0]
        optimizer = torch.optim.Adam(top.parameters(), lr=0.01)
        for step in range(100):
            rows = torch.randperm(400, generator=seeded(step))[:100]
            leaf = made.upload(rows, train=True).requires_grad_()
            optimizer.zero_grad()
            functional.cross_entropy(top(leaf), target[rows]).backward()
            optimizer.step()
            made.learn(leaf.grad, rate=0.1)
        found[alpha] = found_by_a_fresh_reader(made, secret)
        kept = top(made.upload(torch.arange(400, 800), train=False)).argmax(1) == target[400:]
        assert kept.float().mean() > 0.85
    assert found[0.0] > 0.75
    assert found[1.0] < 0.6


def test_alpha_and_sigma_of_zero_are_no_defense_bit_for_bit():
    protected, plain = at_work(NashCoder(0.0, sigma=0.0), [sex()]), at_work(make_defense("none"), [])
    for _ in range(3):
        assert torch.equal(one_step(protected)[0], one_step(plain)[0])
    for found, expected in zip(protected.network.parameters(), plain.network.parameters(), strict=True):
        assert torch.equal(found, expected)


def test_the_published_form_uploads_the_representation_and_ours_a_normalised_one_under_noise():
    data = vectors(COUNT)
    made = at_work(NashCoder(sigma=0.0), [sex()])
    assert torch.equal(made.upload(torch.arange(COUNT), train=False), dense_bottom()(data))
    assert made.defense.operator() is None
    made = at_work(NashCoder(sigma=0.5), [sex()], bottom=nn.Sequential(dense_bottom(), nn.Linear(10, 40)))
    upload, h = made.upload(torch.arange(COUNT), train=True), made._pending.h
    torch.testing.assert_close(h.mean(0), torch.zeros(40), atol=1e-5, rtol=0)
    torch.testing.assert_close(h.square().mean(0), torch.ones(40), atol=1e-2, rtol=0)
    noise = upload - h.detach()
    assert noise.std() == pytest.approx(0.5, rel=0.1)
    assert (made.defense.operator()(h) - h).std().item() == pytest.approx(0.5, rel=0.1)


def test_noise_is_fresh_at_every_upload():
    """Whoever sees a record often can average it: the threat model says so, and this is why."""
    made = at_work(NashCoder(sigma=1.0), [sex()])
    made.upload(torch.arange(COUNT), train=True)  # running statistics
    seen = torch.stack([made.upload(torch.arange(COUNT), train=False) for _ in range(400)])
    assert not torch.equal(seen[0], seen[1])
    assert (seen.mean(0) - made.network(made.features)).abs().mean() < 0.1


def test_a_new_head_takes_over_every_so_many_updates():
    made = at_work(NashCoder(renew_every=3, head_steps=1), [sex()])
    heads = []
    for _ in range(7):
        one_step(made)
        heads.append(made.defense._heads[0])
    assert [heads.index(head) for head in heads] == [0, 0, 0, 3, 3, 3, 6]
    made = at_work(NashCoder(head_steps=1), [sex()])
    assert len({one_step(made) and made.defense._heads[0] for _ in range(5)}) == 1


def test_feature_maps_are_averaged_before_a_head_reads_them():
    data, _ = images(16, 3, 12, 12)
    bottom = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU())
    made = at_work(NashCoder(head_steps=2), [sex(16), age(16)], data, bottom)
    before = copied(made.network)
    assert one_step(made)[0].shape == (16, 8, 12, 12)
    assert not torch.equal(before["0.0.weight"], made.network.state_dict()["0.0.weight"])
    reader = made.defense._heads[0].network
    assert reader[2].in_features == 8 * 4 * 4 and reader[2].out_features == HIDDEN
    assert surrogate_head((8, 2, 12), 5)(torch.zeros(4, 8, 2, 12)).shape == (4, 5), "a strip lower than the pooled size"


@pytest.mark.parametrize("reversal", [False, True])
@pytest.mark.parametrize("secret", [sex(), age(), with_gaps(sex(), 1)], ids=["classes", "quantity", "unknown"])
def test_a_batch_may_be_a_single_record(secret, reversal):
    """The last batch of an epoch, or all that a party holds of one."""
    made = at_work(NashCoder(reversal=reversal), [secret])
    for row in range(3):
        upload, _ = one_step(made, rows=torch.tensor([row]))
        assert upload.shape == (1, 10) and torch.isfinite(upload).all()
    assert all(torch.isfinite(parameter).all() for parameter in made.network.parameters())


# -- log, state, description -------------------------------------------------------------------------------------------


def test_the_log_tells_each_heads_mean_loss_and_begins_anew():
    """Only batches that had the secret count: a head that was asked once in four batches knows nothing yet."""
    made = at_work(NashCoder(0.0, sigma=0.0, head_rate=0.0), [sex(), with_gaps(age(), 1)])
    losses, costs = [], []
    for rows in torch.arange(COUNT).split(8):
        upload, _ = one_step(made, rows)
        values = torch.from_numpy(sex().values)[rows]
        each = functional.cross_entropy(made.defense._heads[0].network(upload), values, reduction="none")
        losses.append(each.mean().item())
        costs.append(-each.clamp(max=math.log(2)).mean().item())
    assert made.defense.meters() == {
        "head_loss_sex": pytest.approx(np.mean(losses), rel=1e-5),
        "cost_sex": pytest.approx(np.mean(costs), rel=1e-5),
    }
    assert made.defense.meters() == {}
    rare = Secret("sex", np.r_[[0, 1] * 4, np.full(COUNT - 8, UNKNOWN)], 2)
    made = at_work(NashCoder(0.0, sigma=0.0, head_rate=0.0), [rare])
    for rows in torch.arange(COUNT).split(8):
        one_step(made, rows)
    assert made.defense.meters()["head_loss_sex"] > 0.4, "about ln 2, not a quarter of it"


@pytest.mark.parametrize("settings", [{}, {"sigma": 0.0, "renew_every": 4}, {"reversal": True}], ids=str)
def test_a_resumed_run_repeats_the_undisturbed_one(settings, tmp_path):
    """Heads, their optimisers, the meter, the count of updates and the noise; through a file, without pickle."""
    secrets = [sex(), with_gaps(age())]
    undisturbed, resumed = (at_work(NashCoder(0.5, **settings), secrets) for _ in range(2))
    for _ in range(3):
        one_step(undisturbed)
    write_tensors(tmp_path / "state.safetensors", undisturbed.state_dict(), {})
    resumed.load_state_dict(read_tensors(tmp_path / "state.safetensors")[0])
    for _ in range(4):
        assert torch.equal(one_step(undisturbed)[0], one_step(resumed)[0])
    ours, theirs = undisturbed.state_dict(), resumed.state_dict()
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []
    assert undisturbed.defense.meters() == resumed.defense.meters()


def test_a_checkpoint_before_the_first_update_has_no_heads_yet(tmp_path):
    undisturbed, resumed = (at_work(NashCoder(), [sex()]) for _ in range(2))
    resumed.load_state_dict(copy.deepcopy(undisturbed.state_dict()))
    assert torch.equal(one_step(undisturbed)[0], one_step(resumed)[0])


def test_a_state_of_other_secrets_is_refused():
    """The added secret would have no head, so nothing would hide it."""
    made = at_work(NashCoder(), [sex()])
    one_step(made)
    with pytest.raises(ValueError, match="another number of secrets"):
        at_work(NashCoder(), [sex(), colour()]).load_state_dict(made.state_dict())


def test_a_loaded_model_predicts_without_its_secrets():
    """The secret's column need not be there when records are predicted, nor when the model is saved again."""
    made = at_work(NashCoder(), [sex()])
    one_step(made)
    loaded = NashCoder()
    loaded.seed(1)
    loaded.load_state_dict(made.defense.state_dict())
    h = torch.zeros(4, 10)
    assert torch.equal(loaded.protect(h, h, train=False), made.defense.protect(h, h, train=False))
    assert loaded.meters() == {}
    NashCoder().load_state_dict(loaded.state_dict())


def test_it_describes_itself_by_exactly_its_arguments():
    chosen = {"alpha": 0.3, "cost": "neg_ce", "sigma": 0.5, "head_steps": 2, "head_rate": 0.01, "renew_every": 7}
    described = NashCoder(**chosen, reversal=True).describe()
    assert json.loads(json.dumps(described)) == {"name": "nashcoder", **chosen, "reversal": True}
    assert list(described)[1:] == list(inspect.signature(NashCoder).parameters)
    assert DEFENSES["nashcoder"] is NashCoder and NashCoder.needs_secrets and not NashCoder.needs_labels
    assert NashCoder().spend() is None, "no differential privacy is claimed"


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        ({"alpha": -0.1}, "alpha"),
        ({"alpha": math.nan}, "alpha"),
        ({"alpha": math.inf}, "alpha"),
        ({"alpha": "much"}, "alpha"),
        ({"alpha": True}, "alpha"),
        ({"sigma": -1.0}, "sigma"),
        ({"head_steps": 0}, "head_steps"),
        ({"head_steps": 1.5}, "head_steps"),
        ({"head_rate": -1e-3}, "head_rate"),
        ({"renew_every": -1}, "renew_every"),
        ({"reversal": "no"}, "reversal"),
    ],
)
def test_arguments_out_of_range_are_refused_by_name(arguments, where):
    with pytest.raises(ConfigError, match="is not allowed") as caught:
        NashCoder(**arguments)
    assert caught.value.where == f"nashcoder.{where}"


@pytest.mark.parametrize("cost", ["capped", None, ["capped_ce"]])
def test_an_unknown_cost_is_refused_with_the_nearest_known(cost):
    with pytest.raises(ConfigError, match="unknown cost") as caught:
        NashCoder(cost=cost)
    assert "capped_ce" in caught.value.remedy


# -- in a federation ---------------------------------------------------------------------------------------------------


def frame(count=200):
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(count, 4)), columns=["age", "bmi", "glucose", "insulin"])
    table["sex"] = np.where(table["glucose"] > 0, "f", "m")
    table["outcome"] = np.where(table["age"] + table["insulin"] > 0, "ill", "well")
    return table


PARTIES = {"clinic": ["age", "bmi"], "lab": ["glucose", "insulin"]}
QUICK = {"seed": 0, "epochs": 2, "batch_size": 32, "progress": False}


def test_a_party_that_names_no_secret_is_told_where_to_name_one():
    made = co.Federation.from_frame(frame(), PARTIES, label=("clinic", "outcome"))
    with pytest.raises(ConfigError, match="'nashcoder' hides sensitive columns, and none is named") as caught:
        co.train(made, "nashcoder", **QUICK)
    assert caught.value.where == "lab" and "secrets of the federation" in caught.value.remedy


def test_its_log_stays_with_the_party_and_has_a_line_an_epoch():
    made = co.Federation.from_frame(frame(), PARTIES, label=("clinic", "outcome"), secrets={"lab": ["sex"]})
    model = co.train(made, {"name": "nashcoder", "alpha": 0.5}, **QUICK)
    history = model.parts["lab"].result["history"]
    assert [row["epoch"] for row in history] == [0, 1]
    assert all(0 < row["head_loss_sex"] < 2 for row in history)
    assert not any("sex" in column for column in model.history.columns), "the active party's log"


def test_a_secret_may_be_a_feature_too():
    columns = {"clinic": ["age", "bmi"], "lab": ["glucose", "insulin", "sex"]}
    made = co.Federation.from_frame(frame(), columns, label=("clinic", "outcome"), secrets={"lab": ["sex"]})
    assert made.records["lab"].columns == ["glucose", "insulin", "sex"]
    assert co.train(made, "nashcoder", **QUICK).scores


def test_the_active_party_can_hide_its_own_secret_from_its_top_model():
    made = co.Federation.from_frame(frame(), PARTIES, label=("clinic", "outcome"), secrets={"clinic": ["sex"]})
    assert co.train(made, {"clinic": "nashcoder", "lab": "none"}, **QUICK).scores
