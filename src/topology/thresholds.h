/* The thresholds of planning from measurement, one a row: what it is, its unit, the reason for its value, and a test
 * that shows its effect (unit/test_thresholds checks that these exist). Tests of unit, prop and sim fail if the value
 * is twice or half as large (that of by_limit_decided: twice, or a third); those of net run in real time, and show
 * that plans come about with these values. Values that follow from others are derived where they are used. Sizes of
 * tables, limits of messages and the like are not here. */
#ifndef BY_TOPOLOGY_THRESHOLDS_H
#define BY_TOPOLOGY_THRESHOLDS_H

/* Factor by which measured rates and predicted times may be off: plans of times that differ by less are tried, a link
 * of a path may be the narrowest one, and calls of two plans are repeated. unit/test_network_cache: test_forecast */
static const double by_limit_error = 1.1;

/* ---- What calls show of links. */

/* Factor: bytes on a link for a byte of data. Headers of TCP over Ethernet with packets of 1500 bytes.
 * unit/test_link_seen: test_in_the_middle */
static const double by_limit_payload = 1.05;
/* Part of the time: a path that is busy for less shows nothing, as single messages wait for answers.
 * unit/test_network_estimate: test_probes */
static const double by_limit_min_busy = 0.15;
/* Part that counts as nearly all: of the time for which a path must be busy to show a mean rate, since after pauses
 * queues absorb more than the link carries; of the stated rate of a path, which is whole if it carries more; and of the
 * confirmed rate, which is confirmed again if a link carries less.
 * unit/test_network_estimate: test_refine_bursts, test_partly_mended, test_confirmed */
static const double by_limit_nearly_all = 0.75;
/* Part of the known rate: a path that gets less is slow. Two jobs on a link leave each other half.
 * unit/test_link_seen: test_shared */
static const double by_limit_slow = 0.6;
/* Part of the known rate: the same for links that are already known to be slow, and the agreement of several probes.
 * unit/test_network_estimate: test_confirmed */
static const double by_limit_slower = 0.85;
/* Factor: a link that shows this multiple of its estimate carries more. Single rates are off by a tenth.
 * unit/test_network_estimate: test_partly_mended */
static const double by_limit_more = 1.15;
/* Factor: a link over which another path got this multiple does not explain a slow path.
 * unit/test_link_seen: test_other_path */
static const double by_limit_much_faster = 2;
/* Part of the stated rate: a link that carries more carries what is stated, and a probe that shows more confirms it.
 * unit/test_link_seen: test_again_soon */
static const double by_limit_as_stated = 0.9;
/* Intervals: slow reports with longer pauses between them do not form a row. unit/test_link_seen: test_no_row */
static const double by_limit_row_intervals = 4;
/* Seconds without evidence after which a slow link counts as whole; twice as long after each repetition.
 * unit/test_link_seen: test_doubted */
static const double by_limit_reset_after = 300;

/* ---- Which slow links count for plans. */

/* Part of the stated rate: links count for no less, and others leave as much.
 * unit/test_network_estimate: test_explained */
static const double by_limit_min_part = 0.01;
/* Part of the stated rate: a link that carries more may be shared with another job. unit/test_network_estimate:
 * test_half */
static const double by_limit_shared = 0.3;
/* Seconds after which such a link counts as slow, once none is newer. unit/test_network_estimate: test_half */
static const double by_limit_shared_for = 10;
/* Factor by which a new plan must be faster, and by which rates must differ to count as changed. It is what predictions
 * of two plans with the same trees differ by. unit/test_network_estimate: test_gain */
static const double by_limit_gain = 1.05;

/* ---- Probes. */

/* Seconds of the first part of a probe at least. unit/test_network_estimate: test_probe_times */
static const double by_limit_probe_first = 0.06;
/* Seconds of the second part at least. unit/test_network_estimate: test_probe_times */
static const double by_limit_probe_second = 0.1;
/* Round trips in which TCP reaches its speed, also after a loss: of the first part at least, and between reports that
 * count. An unanswered probe is repeated after as many first parts. unit/test_network_estimate: test_long_trips */
static const double by_limit_trips_to_speed = 8;
/* Round trips of the second part at least. unit/test_network_estimate: test_long_trips */
static const double by_limit_trips_to_measure = 4;
/* Part of the time for which a link has been slow: pause between its probes. unit/test_network_estimate: test_probes */
static const double by_limit_probe_period = 1.0 / 16;
/* Seconds: that pause at most; and after which a link that may be shared counts as slow in any case.
 * unit/test_network_estimate: test_probe_periods, test_refine_assumed */
static const double by_limit_max_probe_period = 30;
/* First parts: that pause at least, so that probes take 1/30 of the link. unit/test_network_estimate:
 * test_probe_periods */
static const double by_limit_probes_apart = 30;
/* Bytes of each part of a probe at most; a longer one is shortened. unit/test_network_estimate: test_probe_times */
static const double by_limit_probe_bytes = 256e6;

/* ---- Refinement of measured rates. */

/* Part of the sent bytes that probes may use, and part of a link's rate below which calls do not use it.
 * unit/test_network_estimate: test_refine_beside_calls */
static const double by_limit_trace = 0.02;
/* Part of the known rate: a probe that shows less indicates that some link of its path carries less.
 * unit/test_network_estimate: test_refine_less */
static const double by_limit_less = 0.8;
/* Seconds between two probes. unit/test_network_estimate: test_refine_times */
static const double by_limit_refine_period = 1;
/* Seconds: a probe without an answer is lost, evaluations of calls with longer pauses do not form a row, and replanning
 * sleeps without reports. unit/test_network_estimate: test_refine_times */
static const double by_limit_refine_timeout = 5;
/* Part of what a path carries in that time that the first part sends; the second sends so many times as much as the
 * path carries, so that it can show more. unit/test_network_estimate: test_refine_times, test_refine_less */
static const double by_limit_first_part = 0.25;
static const double by_limit_second_part = 1.5;
/* Bytes of TCP's initial window, which doubles in each round trip. unit/test_network_estimate: test_refine_window */
static const double by_limit_first_window = 10e3;

/* ---- Trials of two plans. */

/* Ratio of times below which a plan is certainly faster: medians of calls by one plan differ by 2 %.
 * unit/test_trial: test_choice, test_cautious */
static const double by_limit_faster = 0.97;
/* Ratio of times from which a plan is not tried any longer. unit/test_trial: test_much_slower */
static const double by_limit_much_slower = 1.5;
/* Seconds from which a call is long: few such calls tell as much as many, and cost as much. unit/test_trial: test_long
 */
static const double by_limit_long_call = 0.1;
/* Seconds of a call of a trial at a job's start at least, in which connecting and waking do not matter; and if both
 * plans are predicted to be nearly as fast. unit/test_network_cache: test_forecast */
static const double by_limit_trial_time = 0.02;
static const double by_limit_close_time = 0.045;

/* ---- The survey. */

/* Part of what the ends of a flow, or the hosts of a group, can do: a flow that gets more is not slowed, a group that
 * does more is not held up by a link that they share, and the largest rates of a link differ by less.
 * prop/test_survey_prop: test_exact */
static const double by_limit_full = 0.9;
/* Weight of a pair of a group that was not slowed, and factor of the part by which a pair was slowed, which is taken
 * off: a few rounds in which many flows crossed a link outweigh many in which few did. prop/test_survey_prop:
 * test_slower_back */
static const double by_limit_together = 0.1;
static const double by_limit_penalty = 2;
/* Sum of such weights from which it is decided whether two units belong together. prop/test_survey_prop: test_decided
 */
static const double by_limit_decided = 0.3;
/* Part that counts of the slower of two directions at least, since it may be bad luck.
 * prop/test_survey_prop: test_slower_back */
static const double by_limit_min_share = 0.4;
/* Factor: a unit that does so much more with all units than with any one has several links.
 * prop/test_survey_prop: test_exact */
static const double by_limit_mesh = 1.25;
/* Factor between rates that count as equal. prop/test_survey_prop: test_slower_back */
static const double by_limit_equal = 1.06;
/* Part of what its links can do below which a unit has a limit of its own; and of a rate that agrees with another one.
 * unit/test_survey: test_link_tries */
static const double by_limit_alike = 0.95;
/* Factor between the directions of a link that count as equally fast. unit/test_survey: test_unequal_ways */
static const double by_limit_directions = 1.3;
/* Seconds of a round trip above which hosts are at different sites. prop/test_survey_prop: test_sites */
static const double by_limit_far_trip = 3e-3;
/* Bit/s of a path with a long round trip of which nothing is known. prop/test_survey_prop: test_sites */
static const double by_limit_likely_rate = 5e8;

/* ---- The measurement when a job starts. Its times are those of real networks, so tests/net/test_measure shows whether
 * plans are found in them; docs/decisions/0158 has what was measured. */

/* Seconds of a measurement. net/test_measure: far */
static const double by_limit_measure_time = 0.75;
/* Seconds: a measurement that fails sooner is repeated. net/test_measure: until_shows */
static const double by_limit_repeat_within = 0.4;
/* Factor between the rates of probes that count as equal. net/test_measure: until_shows */
static const double by_limit_max_off = 1.25;
/* Seconds of an experiment at least and at most: shapers and buffers take what starts at once, and few experiments that
 * are long tell less than many. net/test_measure: found */
static const double by_limit_min_slot = 8e-3;
static const double by_limit_max_slot = 0.12;
/* Seconds of a probe, and the part of it, and of an experiment, that does not count. net/test_measure: until_shows */
static const double by_limit_probe_time = 0.02;
static const double by_limit_warm_up = 0.35;
/* Part of the time of experiments after which no more delays are measured. net/test_measure: automatic */
static const double by_limit_too_late = 0.88;
/* Seconds in which a kernel acknowledges, while ranks wait for a core. net/test_measure: automatic */
static const double by_limit_answers_in = 1e-4;
/* Part of the time: a flow to which nothing comes for so long stands still, and a path that was limited by its peer or
 * a buffer for so long does not show what its links carry. sim/test_link_news: test_waits */
static const double by_limit_stalled = 0.3;
/* Seconds for a site, its delays included. net/test_measure: far */
static const double by_limit_site_time = 0.25;
/* Factor between the costs of a machine that were measured first and later, above which other programs disturb; and
 * factor by which they may differ from the usual ones. unit/test_machine_fit: test_disturbed, test_costs */
static const double by_limit_disturbed = 1.2;
static const double by_limit_cost_factor = 4;

/* ---- What the kernel counts of connections. */

/* Seconds of busy time: the kernel counts in ticks of some milliseconds. sim/test_link_news: test_slow */
static const double by_limit_min_ticks = 0.05;
/* Factor of the least round trip from which packets queue for a link. sim/test_link_news: test_long_trip */
static const double by_limit_queued = 2;

/* ---- Pauses of replanning. */

/* Factor from which calls need not prove that a new plan is faster. net/test_lab_plan: switched */
static const double by_limit_certain = 2.5;
/* Seconds after a plan switch in which there is no other, since the last calls by the plan before it still wait for its
 * slowest link, and others seem slow; twice as many each time, up to a limit. net/test_lab_plan: switched */
static const double by_limit_first_quiet = 2;
static const double by_limit_max_quiet = 64;
/* Factor of these seconds after a switch that made no call faster, up to a limit; and in which a pause without a switch
 * resets them. net/test_lab_plan: switched */
static const double by_limit_no_gain = 8;
static const double by_limit_max_no_gain = 600;

#endif
