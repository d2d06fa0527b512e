"""Simulators that live on the host as batched environments: one module a library, over one base."""
