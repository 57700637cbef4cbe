//! Seek types and extracted seek curves.

use super::*;

/// A disk with this arm, 2 surfaces and 301 cylinders.
fn armed(arm: &str) -> String {
    let zone = zone(0, 300, "");
    format!(
        "dm_disk armed {{ Number of data surfaces = 2, Number of cylinders = 301, Mechanical Model \
            = dm_mech_g1 {{ {arm}, Head switch time = 0.2, \
         Rotation speed (in rpms) = 6000 }}, Layout Model = dm_layout_g1 {{ LBN-to-PBN mapping \
         scheme = 0, Sparing scheme used = 0, Zones = [ {zone} ] }} }}"
    )
}

#[test]
fn every_seek_type_takes_the_times_that_its_equation_says() {
    let three =
        "Single cylinder seek time = 1.0, Average seek time = 4.0, Full strobe seek time = 9.0";
    let hpl = "[ 100, 1.0, 0.2, 2.5, 0.01, -1 ]";
    let single = "[ 100, 1.0, 0.2, 2.5, 0.01, 0.7 ]";
    let ten = "First ten seek times = [ 1.0, 0.9, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8 ]";
    let cases: &[(String, &[(u32, f64)])] = &[
        ("Seek type = constant, Constant seek time = 3.5".into(), &[(1, 3.5), (300, 3.5)]),
        // 100 cylinders are a third: straight lines up to it, and to the longest seek, 300.
        (
            format!("Seek type = linear, {three}"),
            &[(1, 1.0), (34, 2.0), (100, 4.0), (180, 6.0), (300, 9.0)],
        ),
        // a = (−10 + 60 − 45) / (3·√301), b = (7 − 60 + 72) / (3·301), c = 1.
        (
            format!("Seek type = curve, {three}"),
            &[
                (1, 1.0),
                (2, 1.117_108_3),
                (17, 1.720_923_4),
                (101, 4.064_751_8),
                (300, 8.952_510_4),
            ],
        ),
        // Ruemmler and Wilkes: 1 + 0.2·√d below 100, then 2.5 + 0.01·d.
        (
            format!("Seek type = hpl, HPL seek equation values = {hpl}"),
            &[(1, 1.2), (4, 1.4), (81, 2.8), (100, 3.5), (300, 5.5)],
        ),
        (
            format!("Seek type = hpl, HPL seek equation values = {single}"),
            &[(1, 0.7), (2, 1.282_842_7), (81, 2.8), (99, 2.989_974_9), (100, 3.5), (300, 5.5)],
        ),
        (
            format!("Seek type = hplplus10, HPL seek equation values = {hpl}, {ten}"),
            &[(1, 1.0), (2, 0.9), (10, 1.8), (16, 1.8), (64, 2.6), (100, 3.5), (250, 5.0)],
        ),
    ];
    for (arm, times) in cases {
        let imported = read(&[("drive.model", &armed(arm))]);
        let mechanism = mechanism(&imported.profile);
        for (distance, ms) in *times {
            let found = mechanism.seek_curve().time(*distance).as_ms_f64();
            assert!(
                (found - ms).abs() < 0.001,
                "{arm}: {distance} cylinders take {found} ms, expected {ms}"
            );
        }
        assert_eq!(imported.profile.seek.head_switch_ms, 0.2);
    }
}

#[test]
fn extracted_curves_are_read_in_each_of_their_forms() {
    let model =
        armed("Seek type = extracted, Full seek curve = far.seek, Add. write settling delay = 0.4");
    let points = vec![(1, 0.5), (2, 0.75), (10, 2.0)];
    for curve in [
        "Seek distances measured: 3\n1, 0.5\n2,\t0.75\n10, 2.0\n",
        "# three\n1, 0.5, 0.01\n\n2, 0.75, 0\n10, 2.0, 0.3",
        "1,0.5\r\n2,0.75\r\n10,2.0\r\n",
    ] {
        for name in ["far.seek", "elsewhere/far.seek", "other.seeks"] {
            let imported = read(&[(name, curve), ("drive.model", &model)]);
            assert_eq!(
                (&imported.profile.seek.points, imported.profile.seek.write_settle_ms),
                (&points, 0.4),
                "{name}: {curve}"
            );
            // Only the bare model, and the substituted file.
            assert_eq!(
                imported.notes.len(),
                if name == "other.seeks" { 2 } else { 1 },
                "{}",
                notes(&imported)
            );
        }
    }
    let imported = read(&[
        ("far.seek", "Seek distances measured: 9\n4, 1.0\n9, 2.0\n"),
        ("drive.model", &model),
    ]);
    assert_eq!(imported.profile.seek.points, [(1, 1.0), (4, 1.0), (9, 2.0)]);
    assert!(
        notes(&imported).contains("announces 9 seek distances, 2 follow")
            && notes(&imported).contains("starts at 4 cylinders"),
        "{}",
        notes(&imported)
    );
    for (curve, expected) in [
        ("1, 0.5\n2, -1\n", "far.seek:2:1: found `2, -1`"),
        ("1, 0.5\nmuch\n", "far.seek:2:1: found `much`"),
        ("1, 0.5\n1, 0.6\n", "a distance above the 1"),
        ("Seek distances measured: 2\n", "no point"),
    ] {
        let error =
            read_with(&[("far.seek", curve), ("drive.model", &model)], &ImportOptions::default())
                .expect_err(curve)
                .to_string();
        assert!(error.contains(expected), "{curve}: {error}");
    }
    let missing = read_with(&[("drive.model", &model)], &ImportOptions::default())
        .expect_err("no curve is given")
        .to_string();
    assert!(missing.contains("`far.seek` cannot be read: there is no far.seek here"), "{missing}");
}

#[test]
fn what_an_arm_cannot_be_is_noted_or_refused() {
    let base = "Seek type = constant, Constant seek time = 1.0";
    let imported = read(&[(
        "drive.model",
        &armed(&format!(
            "{base}, Add. write settling delay = -0.5, Access time type = averageRotation, Color \
                = red"
        )),
    )]);
    for expected in [
        "writes seek 0.5 ms faster",
        "`Access time type = averageRotation` is left out",
        "Color = red",
    ] {
        assert!(notes(&imported).contains(expected), "{}", notes(&imported));
    }
    // ±0.3 % uniform is 0.3 %/√3 of deviation.
    let imported =
        read(&[("drive.model", &armed(&format!("{base}, Percent error in rpms = 0.3")))]);
    assert!(
        (imported.profile.variation.spindle_ppm - 1_732.051).abs() < 0.001,
        "{}",
        imported.profile.variation.spindle_ppm
    );
    for (arm, expected) in [
        ("Seek type = quick", "`Seek type` is quick, expected linear, curve"),
        ("Seek type = constant", "has no `Constant seek time`"),
        (
            "Seek type = hpl, HPL seek equation values = [ 1, 2 ]",
            "has no `HPL seek equation values`; this seek type needs a list of six values",
        ),
        (
            "Seek type = constant, Constant seek time = -1",
            "`Constant seek time` is -1, expected a number from 0",
        ),
        (
            "Seek type = constant, Constant seek time = nan",
            "`Constant seek time` is nan, expected a number from 0",
        ),
    ] {
        let error = refused(&armed(arm));
        assert!(error.contains(expected), "{arm}: {error}");
    }
}
