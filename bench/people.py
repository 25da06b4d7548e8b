"""Writes a CSV file of invented people in the order of the store, so that the import is a single pass.

    target/bench/venv/bin/python bench/people.py 1000000 people.csv
"""
import sys

import xxhash

import stage

numbers = sorted(range(int(sys.argv[1])), key=lambda number: xxhash.xxh3_64_intdigest(stage.key(number)))
with open(sys.argv[2], "w") as out:
    out.write("profileUrl,phone,email\n")
    out.writelines(f"https://{stage.key(number)},{stage.phone(number)},p{number}@example.com\n" for number in numbers)
