#!/usr/bin/env python3
"""A second implementation of the Waybill line protocol, written only from the pages in Protocol/.

    waybill.py send --to 127.0.0.1:4390 --stream web-01-a --env prod --bundle com.example.web --format ndjson a.ndjson
    waybill.py receive --listen 127.0.0.1:4390 --directory received
    waybill.py inspect-journal data/journal/00000000000000000000.journal

It is small so that it can be read, and it checks real peers. It is not for production: it has one thread per
connection, its log of offsets only grows, and a full disk ends it. The token is read from the environment variable
WAYBILL_TOKEN.
"""
import argparse
import os
import sys

from waybill_peer.journal import Segment
from waybill_peer.receiver import Receiver
from waybill_peer.sender import Sender


def main():
    parser = argparse.ArgumentParser(description="An independent peer for the Waybill line protocol.")
    commands = parser.add_subparsers(dest="command", required=True)
    send = commands.add_parser("send", help="ship a finished file from the receiver's offset on, print a summary")
    send.add_argument("--to", required=True, metavar="HOST:PORT")
    send.add_argument("--stream", required=True, metavar="ID", help="the stream's id, unique to this file")
    send.add_argument("--env", required=True, choices=("dev", "internal", "prod"))
    send.add_argument("--bundle", required=True, help="the app for lines that name none")
    send.add_argument("--format", choices=("waybill", "ndjson"), default="waybill")
    send.add_argument("--time-member", metavar="NAME", help="the member of an ndjson line that holds its time")
    send.add_argument("--name-member", metavar="NAME", help="the member of an ndjson line that holds its name")
    send.add_argument("--user-member", metavar="NAME", help="the member of an ndjson line that holds its user")
    send.add_argument("--anonymous-member", metavar="NAME",
                      help="the member of an ndjson line that holds its anonymous id")
    send.add_argument("--source", metavar="NAME", help="the origin of the bytes, for people (default: the file's path)")
    send.add_argument("--agent", metavar="NAME", help="this agent's name (default: derived from the stream's id)")
    names = send.add_mutually_exclusive_group()
    names.add_argument("--walk", action="store_true", help="the file may have been rewritten under its name: continue in "
                       "the one of the streams ID-0, ID-1, … that has its bytes, else in the first unknown one")
    names.add_argument("--reship", action="store_true", help="ship the file under ID, a colon, and the first 16 "
                       "hexadecimal digits of its SHA-256")
    send.add_argument("--fleet", metavar="HEX", help="the fleet that --stored is about; others are told nothing of it")
    send.add_argument("--stored", type=int, default=0, metavar="OFFSET", help="what the fleet has stored of the stream")
    send.add_argument("--stored-by", default="waybill.py", metavar="ID", help="the receiver that said so")
    send.add_argument("--patience", type=float, default=30, metavar="SECONDS", help="how long to try without progress")
    send.add_argument("file", metavar="FILE")
    receive = commands.add_parser("receive", help="store each stream's bytes in a separate file")
    receive.add_argument("--listen", required=True, metavar="HOST:PORT", help="port 0: a free one, which is printed")
    receive.add_argument("--directory", required=True, metavar="DIR")
    receive.add_argument("--name", default="waybill.py", help="the receiver's name (default: waybill.py)")
    receive.add_argument("--fleet", metavar="HEX", help="the fleet that it belongs to: 32 hexadecimal digits")
    receive.add_argument("--stored", default="stored", metavar="FILE",
                         help="of a fleet: the file that says how far offsets.log is in the store: a number, or all")
    inspect = commands.add_parser("inspect-journal", help="list and verify a segment's frames")
    inspect.add_argument("file", metavar="FILE")
    options = parser.parse_args()
    options.token = os.environ.get("WAYBILL_TOKEN")
    if options.command == "inspect-journal":
        return Segment(options.file).inspect()
    role = Sender if options.command == "send" else Receiver
    return role(options).run()


if __name__ == "__main__":
    sys.exit(main())
