"""The former place of `dltutor.failures.tools`, for the doctor."""
