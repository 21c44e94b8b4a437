"""The main job, from a request to outputs: is there anything to do, and if so, load, analyse, run, lay out."""
