"""Any policy on any trace against the digital twin, through the very tick that runs in production.

Belongs here: which policy runs on which trace with which seed (``case``), the loop of time (``run``), what a run came
to (``outcome``), the least that any plan would need (``clairvoyant``), many runs side by side (``campaign``) and how
they are shown. Does not belong here: any rule of deciding, and any physics.
"""
