"""CausShield: uploads come from a generator that has unlearned what surrogates of the records change."""

from colonnade.defend.causshield.defense import CausShield
from colonnade.defend.causshield.surrogates import ImageSurrogates, Surrogates
from colonnade.defend.causshield.tabular import TableSurrogates, table_surrogates

__all__ = ["CausShield", "ImageSurrogates", "Surrogates", "TableSurrogates", "table_surrogates"]
