#!/bin/bash
# hawk sim from the outside: workloads from tables, traces to files, what-if grids, Google's trace.
set -u
fail() { echo "FAIL: $*"; exit 1; }
cd "$TMPDIR" || exit 1

# The same seed gives the same trace, and simulating a trace is simulating what it was written from.
"$HAWK" sim --workload yahoo --jobs 40 --seed 7 --write-trace a.tr || fail "a trace is written"
"$HAWK" sim --workload yahoo --jobs 40 --seed 7 --write-trace - >b.tr || fail "a trace is written to standard output"
cmp a.tr b.tr || fail "the same seed gives the same trace"
"$HAWK" sim --workload yahoo --jobs 40 --seed 8 --write-trace - | cmp -s a.tr - && fail "another seed gives the same trace"
[ "$(wc -l <a.tr)" = 40 ] || fail "40 jobs"
printf 'jobs 30\ngap 1s\ncutoff 10s\nshort 4 3 1s\nlong 1 20 30s\n' >own.tbl
"$HAWK" sim --workload own.tbl --write-trace own.tr || fail "a table of one's own"
"$HAWK" sim --workload own.tbl --workers 50 --output csv >drawn.csv || fail "a drawn workload is simulated"
"$HAWK" sim --trace own.tr --cutoff 10s --workers 50 --output csv >read.csv || fail "a trace is simulated"
cmp drawn.csv read.csv || fail "drawn and read jobs give the same results"

# A wrong table, and flags that do not go together.
echo "gap 1" >bad.tbl
"$HAWK" sim --workload bad.tbl --workers 5 2>err && fail "a wrong table is accepted"
grep -q 'bad.tbl:1:5: expected the mean time between submissions' err || fail "what is wrong with the table: $(cat err)"
"$HAWK" sim --trace own.tr --write-trace x.tr 2>/dev/null && fail "--write-trace without a workload is accepted"
"$HAWK" sim --workload own.tbl --write-trace /dev/full 2>err && fail "a full disk goes unnoticed"
grep -q '/dev/full: cannot be written' err || fail "what is wrong with the disk: $(cat err)"

# A grid ends in a recommendation, and fails where a run fails.
"$HAWK" sim --trace own.tr --workers 40 --cutoff 10s --sweep partition=0%,10%,workers=30,40 >table || fail "a grid"
grep -q '^30 workers: .*cutoff 10 s' table && grep -q '^40 workers: .*cutoff 10 s' table || fail "recommendations: $(cat table)"
"$HAWK" sim --trace own.tr --workers 40 --sweep cutoff=9s -o json | grep -q '"cutoff_s": 9' || fail "a grid as JSON"
"$HAWK" sim --trace - --workers 40 --sweep cutoff=9s 2>err <own.tr && fail "a grid from standard input"
"$HAWK" sim --trace own.tr --sweep 'cutoff=9' 2>err && fail "a wrong grid is accepted"
grep -q 'cutoff: expected a time above 0 (90s), found "9"' err || fail "what is wrong with the grid: $(cat err)"

# Google's table becomes a trace that can be simulated.
{
    echo "600000000,,1,0,,0,u,0,0,,,,"
    echo "601000000,,1,0,,1,u,0,0,,,,"
    echo "604500000,,1,0,,4,u,0,0,,,,"
} >part.csv
"$HAWK" sim convert-google --out g.tr part.csv 2>counts || fail "Google's trace"
[ "$(cat g.tr)" = "0 1 3.5 3.5" ] || fail "the job: $(cat g.tr)"
grep -q 'Jobs: 1 of 1 kept' counts || fail "the counts: $(cat counts)"
"$HAWK" sim --trace g.tr --workers 1 -o csv >/dev/null || fail "it is simulated"
"$HAWK" sim convert-google --out none.tr /dev/null 2>err && fail "no jobs are accepted"
grep -q 'no job is kept, so no trace is written' err && [ ! -e none.tr ] || fail "no jobs: $(cat err)"
"$HAWK" sim --trace g.tr --workload google --workers 1 2>err && fail "a trace and a workload are accepted"
grep -q 'one of them, not both' err || fail "both: $(cat err)"
echo "x,,1,0,,1,,,,,,," | "$HAWK" sim convert-google - >/dev/null 2>err && fail "a malformed line is accepted"
grep -q 'standard input:1:1: expected a time in microseconds, found "x"' err || fail "what is wrong with it: $(cat err)"
"$HAWK" sim nonsense 2>/dev/null && fail "an unknown word is accepted"
exit 0
