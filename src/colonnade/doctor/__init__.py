"""Whether Colonnade can work here: what is installed, how fast it is, what is missing, and whose keys are in order.

Nothing is imported before it is looked at: a library that is broken must be told, not end the doctor.
"""
