"""Dyno's engine of recurrent networks (LSTM, GRU, RNN) on CPUs."""

from ._native import Model

__all__ = ["Model"]
