#!/usr/bin/env python3
"""Measures what encryption between hosts costs, as ratios within one run: each case is started in turn, round by round,
and the medians of the rounds' medians count.

Over loopback, two ranks with BANYAN_ENCRYPT=always are compared with plain text that is copied (copies.c), and with Gloo's
TCP_TLS if --gloo names a build of Gloo that has it:

    git clone https://github.com/facebookincubator/gloo && cd gloo && git checkout 5b14351
    sed -i 's/find_package(OpenSSL 1.1 REQUIRED EXACT)/find_package(OpenSSL REQUIRED)/' gloo/CMakeLists.txt
    cmake -B build -DUSE_TCP_OPENSSL_LINK=ON -DCMAKE_BUILD_TYPE=Release && cmake --build build

Later ones send plain text in spite of TCP_TLS: tcp::Context makes pairs by another createPair() than the one that
tls::Context replaces. In labs, jobs as they are by default are compared with BANYAN_ENCRYPT=off. Needs root."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
LABS = (("star:2,nic=100m", "4M"), ("star:2,nic=1g", "16M"), ("star:4,nic=1g", "16M"),
        (str(HERE.parent / "examples/topologies/two-sites.json"), "1M"))
LIMIT = 120  # seconds that a start may take


def fail(text):
    sys.exit(f"bench/encrypted.py: {text}")


def realtime():
    works = subprocess.run(["chrt", "-r", "1", "true"], capture_output=True, check=False).returncode == 0
    return ["chrt", "-r", "1"] if works else []


def start(command, environment=()):
    """Returns {bytes: microseconds}."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False,
                              env=dict(os.environ, BANYAN_LOG="error", **dict(environment)))
    except subprocess.TimeoutExpired:
        fail(f"took more than {LIMIT} s: {' '.join(command)}")
    if done.returncode:
        fail(f"{' '.join(command)}: {done.stderr[-500:]}")
    lines = [line[line.find("{"):] for line in done.stdout.splitlines() if '"time_us"' in line]
    return {record["bytes"]: record["time_us"] for record in map(json.loads, lines)}


def medians(cases, rounds):
    """`cases`: functions that start one. Returns a list of {bytes: microseconds}."""
    times = [[case() for case in cases] for _ in range(rounds)]
    return [{size: statistics.median(turn[i][size] for turn in times) for size in times[0][i]}
            for i in range(len(cases))]


# --- over loopback ---


def build(folder, gloo):
    subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", folder / "copies.so", HERE / "copies.c", "-ldl"], check=True)
    if not gloo:
        return
    built = Path(gloo) / "build"
    subprocess.run(["g++", "-std=c++17", "-O3", "-march=native", "-w", "-o", folder / "peer_gloo", HERE / "peer_gloo.cpp",
                    f"-I{gloo}", f"-I{built}", built / "gloo/libgloo.a", "-lssl", "-lcrypto", "-lpthread", "-ldl"],
                   check=True)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=bench",
                    "-keyout", folder / "key.pem", "-out", folder / "cert.pem"], check=True, capture_output=True)


def loopback(options, folder):
    front = ["unshare", "--net", "sh", "-c",
             'ip link set lo up && sysctl -qw net.ipv4.tcp_congestion_control=reno && exec "$@"', "sh", *realtime()]
    common = ["-n", "2", "--sizes", options.sizes, "--pin"]
    bench = [*front, options.banyan, "bench", "--transport", "tcp", "--json", "--check", "off", *common]
    cases = [lambda: start(bench, {"BANYAN_ENCRYPT": "off", "LD_PRELOAD": str(folder / "copies.so")}),
             lambda: start(bench, {"BANYAN_ENCRYPT": "always"})]
    if options.gloo:
        tls = "GLOO_DEVICE_TRANSPORT"
        cases.append(lambda: start([*front, str(folder / "peer_gloo"), *common, "--algorithm", "ring"],
                                   {tls: "TCP_TLS", f"{tls}_TCP_TLS_PKEY": str(folder / "key.pem"),
                                    f"{tls}_TCP_TLS_CERT": str(folder / "cert.pem"),
                                    f"{tls}_TCP_TLS_CA_FILE": str(folder / "cert.pem")}))
    plain, encrypted, *gloo = medians(cases, options.rounds)
    print("| loopback, bytes | plain text, us | encrypted, us | ratio | Gloo TCP_TLS, us | Gloo / encrypted |")
    print("|---:|---:|---:|---:|---:|---:|")
    for size, time in plain.items():
        peer = f"{gloo[0][size]:.1f} | {gloo[0][size] / encrypted[size]:.2f}" if gloo else "- | -"
        print(f"| {size} | {time:.1f} | {encrypted[size]:.1f} | {encrypted[size] / time:.2f} | {peer} |", flush=True)


# --- labs ---


def labs(options):
    def case(topology, size, encrypt):
        return start([*realtime(), options.banyan, "lab", topology, "-x", "BANYAN_TOPOLOGY=", "-x", "BANYAN_CACHE=off",
                      "-x", f"BANYAN_ENCRYPT={encrypt}", "--", options.banyan, "bench", "allreduce", "--sizes", size,
                      "--iterations", "10", "--check", "off", "--json"])

    print("\n| lab | bytes | plain text, ms | encrypted, ms | ratio |\n|---|---:|---:|---:|---:|")
    for topology, size in LABS:
        plain, encrypted = medians([lambda: case(topology, size, "off"), lambda: case(topology, size, "auto")],
                                   options.rounds)
        for n, time in plain.items():
            print(f"| {Path(topology).name} | {n} | {time / 1000:.2f} | {encrypted[n] / 1000:.2f} | "
                  f"{encrypted[n] / time:.3f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--banyan", default=str(HERE.parent / "build/banyan"))
    parser.add_argument("--gloo", help="a folder with Gloo's source, built in build/")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sizes", default="8,64K,1M,16M")
    parser.add_argument("--only", choices=("loopback", "labs"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.only != "labs":
            build(Path(folder), options.gloo)
            loopback(options, Path(folder))
    if options.only != "loopback":
        labs(options)


if __name__ == "__main__":
    main()
