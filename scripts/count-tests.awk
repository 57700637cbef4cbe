# Adds up the results of all test binaries and ends with the failed tests and one line of totals. Exits with 1 if a test
# failed or none ran. The output of passed tests is omitted, except the reason for skipping; that of failed tests is shown.
/^ +Running |^ +Doc-tests / { binary = $0; sub(/^ +Running /, "", binary); sub(/ \(.*/, "", binary); sub(/^ +/, "", binary) }
/^test result:/ { passed += $4; failed += $6; skipped += $8 }
/^test .* \.\.\. FAILED/ { broken[++count] = binary ": " $2 }
/^error: test failed|^error: doctest failed/ { stopped[$0] = 1 }
/^successes:$/ { quiet = 1 }
/^failures:$|^test result:/ { quiet = 0 }
# A test that cannot run on this machine prints "skipped: reason" and returns; cargo counts it as passed.
/^---- .* stdout ----$/ { test = binary " " $2 }
/^skipped: / && test != "" { early += 1; reasons[$0] += 1; test = "" }
!quiet && !/^$/ { print; fflush() }
END {
    if (early) { print "\ntests that could not run here (counted as skipped):"; for (line in reasons) print "  " reasons[line] " × " line }
    if (count) { print "\ntests that failed:"; for (i = 1; i <= count; i++) print "  " broken[i] }
    for (line in stopped) { ended += 1; print line }
    printf "\n%d passed, %d failed, %d skipped\n", passed - early, failed, skipped + early
    exit (failed > 0 || ended > 0 || passed == 0)
}
