"""What `colonnade init` writes: a federation file and one file per party, explained line by line."""

from __future__ import annotations

from collections.abc import Sequence

from colonnade.federation.discovery import DiscoverySettings
from colonnade.federation.yaml_file import quoted

FIRST_PORT = 7101

_FEDERATION = """\
# {name}: the same file at every party. Once aligned, a run compares its parties, active, task and seed; a discovery
# its settings and knowledge. 'colonnade check federation.yaml --party {first_file}.yaml' tells every problem at once.

name: {name}

# Who takes part. address: where the others reach the party. fingerprint: of its certificate, as 'colonnade keys'
# prints it; null accepts any certificate that the federation's CA gave to that name.
parties:
{parties}
# What 'colonnade train' and 'join' learn to predict: the active party holds the label, the others (passive) hold
# columns only. Without both, the federation can discover a causal graph, and nothing else.
active: {active}
label: {label}

task:
  kind: auto            # auto, binary, multiclass or regression; auto decides from the label
  network:
    family: mlp         # mlp for tables; mnist_net, resnet18, resnet18_narrow or resnet34 for images
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
  local_updates: 1      # steps that every party takes on a batch between two exchanges
  labels: server        # who sees labels: server, the active party alone; shared, all parties, with all uploads
  weights:
    strategy: none      # how much each party's part of the task counts: none, uniform or shapley
  patience: null        # stop after so many epochs without a better validation loss
  missing: drop         # records that a party lacks: drop or impute
  protection: null      # the defense that every passive party must use; null leaves it to each
  checkpoint_every: 100 # steps

# For 'colonnade discover': who looks at the strengths of edges and keeps the graph acyclic. No party: it holds no data.
{coordinator}
# How the graph is found; docs/reference/files.md explains every key. Those left out here have good defaults.
discovery:
  secure: true          # false shows features in the clear: for research only
  epochs: {epochs}
  missing: refuse       # missing values: refuse, or impute them as causes and ignore them as effects
  reveal: all           # who sees which edges at the end: all, or own for those that touch a party's own columns
  checkpoint_every: {checkpoint_every}  # looks of the coordinator at the graph

# What everybody may know about the graph beforehand, in names of columns. What only a party should state, and only the
# coordinator should hear, stands in the party's own file.
knowledge:
  required: []          # edges that are there, such as [[age, pressure]]: cause, then effect
  forbidden: []         # edges that are not
  tiers: []             # groups in the order of time: a later one never causes an earlier one
  roots: []             # columns without causes
  sinks: []             # columns without effects

seed: 0
heartbeat: 5            # seconds after which a silent party counts as lost
"""

_COORDINATOR_ENTRY = """\
coordinator:
  name: {party}
  address: 127.0.0.1:{port}
  fingerprint: null
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
  columns: null         # a list of columns to take part with; null takes all but the id, the label and sensitive ones
  kind: table           # table or images

# Columns whose values the others must not learn, such as [sex]; no features, unless data.columns lists them. The
# defense nashcoder hides them; 'colonnade audit attributes' tries whether it does.
sensitive: []

# For 'colonnade discover'. kinds: of columns that are not what they seem, such as {{visits: continuous}}; each is
# continuous, binary, count or categorical. knowledge: edges from or to my own columns that I know about; only the
# coordinator is told, and what it means is explained in federation.yaml.
kinds: {{}}
knowledge:
  required: []
  forbidden: []
  tiers: []
  roots: []
  sinks: []

defense:
  name: none            # how my uploads are protected, such as gaussian; further keys are its strength

share_labels: false     # at the active party: true lets all parties see labels where the task says 'labels: shared'

device: auto            # auto, cpu or cuda
runs: runs/{folder}     # the folder of my runs

{credentials}missing_party: refuse   # when predicting without some party: refuse, or impute its upload and say so
"""


_COORDINATOR = """\
# {folder}'s own file: the coordinator of 'colonnade discover', which holds no data. Paths are meant from this file's
# folder.

party: {party}          # who I am: the coordinator in federation.yaml
runs: runs/{folder}     # the folder of my runs

{credentials}"""

_CREDENTIALS = """\
# 'colonnade keys' makes these. Never send the key to anybody.
credentials:
  ca: keys/{folder}/ca.pem
  certificate: keys/{folder}/certificate.pem
  key: keys/{folder}/key.pem

listen: null            # another address to listen on than the one in federation.yaml, such as 0.0.0.0:{port}
"""


def federation_template(
    name: str,
    parties: Sequence[str],
    active: str | None = None,
    label: str | None = None,
    coordinator: str | None = None,
) -> str:
    """Return the text of a `federation.yaml`."""
    entries = "".join(_ENTRY.format(party=quoted(party), port=FIRST_PORT + n) for n, party in enumerate(parties))
    port = FIRST_PORT + len(parties)
    usual = DiscoverySettings()
    return _FEDERATION.format(
        name=quoted(name),
        parties=entries,
        active=quoted(active),
        first_file=active or parties[0],
        label=quoted(label),
        coordinator=_COORDINATOR_ENTRY.format(party=quoted(coordinator), port=port)
        if coordinator is not None
        else "coordinator: null\n",
        epochs=usual.epochs,
        checkpoint_every=usual.checkpoint_every,
    )


def party_template(parties: Sequence[str], party: str) -> str:
    """Return the text of one party's file."""
    port = FIRST_PORT + list(parties).index(party)
    return _PARTY.format(party=quoted(party), folder=party, credentials=_CREDENTIALS.format(folder=party, port=port))


def coordinator_template(parties: Sequence[str], coordinator: str) -> str:
    """Return the text of the coordinator's own file."""
    credentials = _CREDENTIALS.format(folder=coordinator, port=FIRST_PORT + len(parties))
    return _COORDINATOR.format(party=quoted(coordinator), folder=coordinator, credentials=credentials)
