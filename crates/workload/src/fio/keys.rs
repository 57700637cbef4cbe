//! [`OPTIONS`]: fio's options, and what becomes of each. Reader, documentation and tests iterate
//! over this table.

/// An option of fio.
pub struct FioOption {
    /// Its names; the first is the one used here.
    pub names: &'static [&'static str],
    /// What becomes of it.
    pub fate: Fate,
}

/// What becomes of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It decides the requests here as it does in fio, but for what is said here, if anything is.
    Understood(&'static str),
    /// It has no meaning for a drive that is simulated; nothing is said.
    Meaningless,
    /// It changes a little what fio asks and is left out; a note says so.
    LeftOut(&'static str),
    /// It changes what fio asks for so much that the job is refused, with this remedy.
    Refused(&'static str),
}

const fn understood(names: &'static [&'static str], but: &'static str) -> FioOption {
    FioOption { names, fate: Fate::Understood(but) }
}

const fn left_out(names: &'static [&'static str], why: &'static str) -> FioOption {
    FioOption { names, fate: Fate::LeftOut(why) }
}

const fn refused(names: &'static [&'static str], remedy: &'static str) -> FioOption {
    FioOption { names, fate: Fate::Refused(remedy) }
}

/// The option of that name, if it is known.
#[must_use]
pub(super) fn find(name: &str) -> Option<&'static FioOption> {
    OPTIONS.iter().find(|option| option.names.contains(&name))
}

/// fio's options.
pub const OPTIONS: &[FioOption] = &[
    understood(
        &["rw", "readwrite"],
        "read, write, trim, randread, randwrite, randtrim, rw, readwrite, randrw, with :N; \
            trimwrite is refused",
    ),
    understood(&["bs", "blocksize"], "by direction too"),
    understood(&["bssplit"], "by direction too"),
    understood(
        &["bsrange", "blocksize_range"],
        "by direction too; every multiple of the smallest with the same probability",
    ),
    understood(&["ba", "blockalign"], "one value for all directions"),
    understood(&["rwmixread"], ""),
    understood(&["rwmixwrite"], ""),
    understood(&["ioengine"], "only whether it is synchronous, where iodepth has no effect"),
    understood(&["iodepth"], ""),
    understood(&["numjobs"], "a stream for each, or more clients of one where that is the same"),
    understood(
        &["size"],
        "the range, and how much is asked for unless io_size or time_based says otherwise",
    ),
    understood(&["io_size", "io_limit"], ""),
    understood(&["loops"], "so many times as much is asked for"),
    understood(&["offset"], ""),
    understood(&["offset_increment"], ""),
    understood(
        &["filename"],
        "jobs with the same device or file share its place, files lie one behind the other",
    ),
    understood(&["runtime", "timeout"], ""),
    understood(&["time_based"], ""),
    understood(&["startdelay"], "one time, no range of times"),
    understood(&["stonewall", "wait_for_previous"], "where all earlier jobs have a runtime"),
    understood(&["rate_iops"], ""),
    understood(&["rate"], "divided by the mean size"),
    understood(&["rate_process"], ""),
    understood(&["thinktime"], "at an iodepth of 1"),
    understood(
        &["random_distribution"],
        "random, zipf, pareto, normal and zoned, without a center",
    ),
    understood(&["percentage_random"], "one value for all directions"),
    understood(&["rw_sequencer"], "sequential"),
    understood(&["fsync"], ""),
    understood(&["fdatasync"], "as fsync"),
    understood(&["sync"], "writes demand force unit access"),
    understood(&["direct"], "only noted where it is missing: no page cache is simulated"),
    understood(&["buffered"], "as direct, the other way round"),
    understood(&["kb_base"], ""),
    FioOption {
        names: &[
            "name",
            "description",
            "group_reporting",
            "new_group",
            "thread",
            "directory",
            "filename_format",
            "unique_filename",
            "filesize",
            "nrfiles",
            "openfiles",
            "norandommap",
            "softrandommap",
            "randrepeat",
            "allrandrepeat",
            "randseed",
            "random_generator",
            "invalidate",
            "fallocate",
            "create_serialize",
            "create_fsync",
            "create_on_open",
            "create_only",
            "overwrite",
            "unlink",
            "unlink_each_loop",
            "refill_buffers",
            "scramble_buffers",
            "zero_buffers",
            "buffer_pattern",
            "buffer_compress_percentage",
            "buffer_compress_chunk",
            "dedupe_percentage",
            "mem",
            "iomem",
            "iomem_align",
            "mem_align",
            "lockmem",
            "gtod_reduce",
            "gtod_cpu",
            "clocksource",
            "disable_lat",
            "disable_clat",
            "disable_slat",
            "disable_bw",
            "lat_percentiles",
            "clat_percentiles",
            "slat_percentiles",
            "percentile_list",
            "unified_rw_reporting",
            "bwavgtime",
            "iopsavgtime",
            "write_bw_log",
            "write_lat_log",
            "write_iops_log",
            "write_hist_log",
            "log_avg_msec",
            "log_hist_msec",
            "log_max_value",
            "log_offset",
            "log_compression",
            "log_unix_epoch",
            "per_job_logs",
            "status_interval",
            "eta",
            "eta_newline",
            "unit_base",
            "significant_figures",
            "disk_util",
            "cpus_allowed",
            "cpus_allowed_policy",
            "numa_cpu_nodes",
            "numa_mem_policy",
            "nice",
            "uid",
            "gid",
            "hipri",
            "fixedbufs",
            "registerfiles",
            "sqthread_poll",
            "sqthread_poll_cpu",
            "userspace_reap",
            "cmdprio",
            "allow_file_create",
            "allow_mounted_write",
            "file_append",
            "thinktime_spin",
            "rate_min",
            "rate_iops_min",
            "rate_cycle",
            "continue_on_error",
            "ignore_error",
            "error_dump",
            "max_latency",
            "wait_for",
            "do_verify",
            "verify_dump",
            "verify_fatal",
        ],
        fate: Fate::Meaningless,
    },
    left_out(&["ramp_time"], "leave requests uncounted at the start with --warmup"),
    left_out(&["iodepth_batch", "iodepth_batch_submit"], "each request is sent by itself"),
    left_out(
        &["iodepth_batch_complete", "iodepth_batch_complete_min", "iodepth_batch_complete_max"],
        "each completion is taken by itself",
    ),
    left_out(&["iodepth_low"], "the queue is refilled at each completion"),
    left_out(&["end_fsync", "fsync_on_close", "sync_file_range"], "no flush at the end of a job"),
    left_out(&["exitall", "exit_what"], "each job ends by itself"),
    left_out(&["pre_read"], "no file is read in advance"),
    left_out(&["bs_unaligned", "blocksize_unaligned"], "sizes are whole sectors"),
    left_out(&["file_service_type"], "one file for each job"),
    left_out(
        &["prio", "prioclass", "cmdprio_percentage", "cmdprio_class"],
        "priorities do not reach the drive; give streams deadlines in a TOML file",
    ),
    left_out(
        &[
            "steadystate",
            "steadystate_duration",
            "steadystate_ramp_time",
            "ss",
            "ss_dur",
            "ss_ramp",
        ],
        "the run has the length it was given",
    ),
    left_out(&["fill_device", "fill_fs"], "a drive has no end of space"),
    refused(
        &["thinktime_blocks", "thinktime_blocks_type", "thinktime_iotime"],
        "think after every request, or write the workload as TOML",
    ),
    refused(
        &["zonesize", "zonerange", "zoneskip", "zonemode", "zonecapacity"],
        "use random_distribution=zoned, or write the workload as TOML with a range for each stream",
    ),
    refused(
        &[
            "read_iolog",
            "replay_redirect",
            "replay_time_scale",
            "replay_scale",
            "replay_align",
            "replay_no_stall",
            "replay_skip",
        ],
        "replay a recording with headtime sim --trace",
    ),
    refused(
        &["verify", "verify_only", "verify_backlog", "verify_async"],
        "remove it: a simulated drive stores nothing to verify",
    ),
    refused(
        &["latency_target", "latency_window", "latency_percentile", "latency_run"],
        "remove it; headtime compare varies the depth",
    ),
    refused(&["flow", "flow_id", "flow_watermark", "flow_sleep"], "give each job a rate"),
    refused(&["number_ios"], "say how much is to be asked for with io_size"),
    refused(&["io_submit_mode"], "give the job a rate"),
    refused(
        &["profile", "trim_percentage", "trim_verify_zero", "trim_backlog"],
        "write the workload as TOML",
    ),
];
