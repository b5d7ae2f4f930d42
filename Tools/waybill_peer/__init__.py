"""A second implementation of the Waybill line protocol; `../waybill.py` is its command line."""
