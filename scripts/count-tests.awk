# Adds up what the test binaries report, and ends with what failed and one line that counts them all. Exit 1 when one failed or none ran.
# What a test that passed had to say is left out, but for the reason of one that could not run here; what failed is shown whole, and named again at the end.
/^ +Running |^ +Doc-tests / { binary = $0; sub(/^ +Running /, "", binary); sub(/ \(.*/, "", binary); sub(/^ +/, "", binary) }
/^test result:/ { passed += $4; failed += $6; skipped += $8 }
/^test .* \.\.\. FAILED/ { broken[++count] = binary ": " $2 }
/^error: test failed|^error: doctest failed/ { stopped[$0] = 1 }
/^successes:$/ { quiet = 1 }
/^failures:$|^test result:/ { quiet = 0 }
# A test that cannot run here returns early and prints why; it counts as passed above, so it is named apart.
/^skipped: / { named[$0] = 1 }
!quiet && !/^$/ { print; fflush() }
END {
    for (line in named) { early += 1 }
    if (early) { print "\ntests that could not run here (counted as skipped):"; for (line in named) print "  " line }
    if (count) { print "\ntests that failed:"; for (i = 1; i <= count; i++) print "  " broken[i] }
    for (line in stopped) { ended += 1; print line }
    printf "\n%d passed, %d failed, %d skipped\n", passed - early, failed, skipped + early
    exit (failed > 0 || ended > 0 || passed == 0)
}
