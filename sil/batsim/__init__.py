"""Schedulers in processes of their own that speak Batsim's protocol, version 4; `serving` offers ours."""
