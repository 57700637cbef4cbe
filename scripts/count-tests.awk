# Adds up what the test binaries report, and ends with one line that counts them all. Exit 1 when one failed or none ran.
/^test result:/ { passed += $4; failed += $6; skipped += $8; binaries += 1 }
# A test that cannot run here returns early and prints why; it counts as passed above, so it is named apart.
/^skipped: / { named[$0] = 1 }
{ print }
END {
    for (line in named) { early += 1 }
    if (early) { print "\ntests that could not run here (counted as skipped):"; for (line in named) print "  " line }
    printf "\n%d passed, %d failed, %d skipped\n", passed - early, failed, skipped + early
    exit (failed > 0 || passed == 0)
}
