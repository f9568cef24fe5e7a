"""The conditions of the measurements: the machine, its settings and the versions of the compared programs."""

import os
import platform
import subprocess
import time


def read(path):
    try:
        with open(path) as file:
            return " ".join(file.read().split())
    except OSError:
        return "unknown"


def first_line(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return "none"
    return done.stdout.strip().split("\n")[0] if done.returncode == 0 else "none"


def cpu_model():
    names = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    return names[0] if names else platform.machine()


def package(name):
    return first_line("dpkg-query", "-W", "-f", "${Version}", name)


def describe():
    here = os.path.dirname(os.path.abspath(__file__))
    tcp = "/proc/sys/net/ipv4/"
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "commit": first_line("git", "-C", here, "describe", "--always", "--dirty"),
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "load_before": os.getloadavg()[0],
        "realtime": os.environ.get("BENCH_REALTIME") or "not permitted",
        "sched_rt_runtime_us": read("/proc/sys/kernel/sched_rt_runtime_us"),
        "namespace": os.environ.get("BENCH_NAMESPACE", "none"),
        "congestion_control": read(tcp + "tcp_congestion_control"),
        "tcp_rmem": read(tcp + "tcp_rmem"),
        "tcp_wmem": read(tcp + "tcp_wmem"),
        "transparent_hugepage": read("/sys/kernel/mm/transparent_hugepage/enabled"),
        "ptrace_scope": read("/proc/sys/kernel/yama/ptrace_scope"),
        "openmpi": package("openmpi-bin"),
        "mpich": package("mpich"),
        "gloo": package("libgloo0"),
        "banyan": first_line(os.environ["BANYAN"], "version"),
    }
