"""Simulators on the host as batched environments: one module for each library, over one base."""
