"""Devices that programs run on: how they are reached, a store by digest there, and a lock; imported when used."""
