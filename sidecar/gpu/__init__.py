"""GPUs: NVML in a child process, pages of GPU exporters, and whose GPU it is.

Kept free of imports: the NVML child imports modules from below here and must stay small.
"""
