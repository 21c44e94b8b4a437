"""Run programs on devices: connections, a store by digest on the device, and a lock. Imported when used."""
