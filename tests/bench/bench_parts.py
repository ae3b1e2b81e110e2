"""What several tests of benches share."""

from colonnade.progress import Progress


class Notes(Progress):
    """Remembers what a bench says beside its rows."""

    def __init__(self):
        self.notes = []

    def message(self, text):
        self.notes.append(text)
