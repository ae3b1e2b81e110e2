"""Reports: whatever runs, audits and benches left in their folders, as one page for the browser."""

from colonnade.report.gather import Study, gather
from colonnade.report.page import report_page, write_report

__all__ = ["Study", "gather", "report_page", "write_report"]
