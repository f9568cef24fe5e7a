#!/usr/bin/env python3
"""page_in_browser SERVE-STATE BANYAN FOLDER: opens the page as a user would, and checks what is visible."""
import json
import os
import subprocess
import sys
from pathlib import Path

import cluster_state
from browser import Browser

NOW = 1800000000


def check(well, what):
    if not well:
        raise SystemExit(f"failed: {what}")


class World:
    def __init__(self, server, banyan, folder):
        self.server, self.banyan, self.folder = server, banyan, Path(folder)
        self.process, self.address = None, "127.0.0.1:0"
        self.browser = None

    def put(self, racks, hosts, jobs, now=NOW):
        """Makes the state that is served from now on."""
        return self.serve(cluster_state.make(racks, hosts, jobs, now, 1))

    def serve(self, state):
        new = self.folder / "new"
        new.write_text(json.dumps(state))
        os.replace(new, self.folder / "state")
        return state

    def start(self):
        """Returns the page's address with the token, which is the same after the first time."""
        self.process = subprocess.Popen([self.server, self.folder / "state", self.folder / "token", self.address],
                                        stdout=subprocess.PIPE, text=True)
        url = self.process.stdout.readline().strip()
        check(url.startswith("http://"), "the server prints its address")
        self.address = url.split("/")[2]
        return url

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
            self.process = None


def check_token(world, url):
    b = world.browser
    plain = url.split("?")[0]
    b.open(plain)
    check("Token" in b.text("body") and b.count("#jobs") == 0, "a browser without a token is asked for it")
    b.type("#token", url.split("token=")[1] + "\n")
    b.wait("the token is taken", lambda: b.count("#jobs") == 1)
    check(b.run("return location.href") == plain, "the token is gone from the address")
    check(b.run("return document.cookie") == "", "no script can read the cookie")
    b.wait("the page is live", lambda: b.text("#live") == "Live")


def check_jobs(world, state):
    b = world.browser
    b.wait("there is a row for each job", lambda: b.count("#job-table tbody tr") == len(state["jobs"]))
    shown = b.text("#job-table")
    for job in state["jobs"]:
        check(job["name"] in shown, f"{job['name']} is shown")
    check("8 hosts" in b.text("#summary"), "the summary counts the hosts")
    check(b.count("#drawing circle.host, #drawing rect.switch") == 8 + 4, "all hosts and switches are drawn")
    check(b.count("#drawing .links line") == 2 * len(state["topology"]["links"]), "both ways of all links are drawn")
    check(b.count("#drawing .links line:not(.use-0)") > 0, "links in use have another colour")
    title = b.run("return document.querySelector('#drawing .links line title').textContent")
    check("jobs" in title and "other traffic" in title, "a link names the traffic of jobs")


def check_first(world):
    """A job is selected from the start, and its details are explained."""
    b = world.browser
    b.wait("the first job of the table is chosen", lambda: b.count("#drawing .tree") > 0)
    first = b.run("return document.querySelector('#job-table tbody th').innerText")
    check(b.text("#job-title") == first, f"not the first job, {first}, but {b.text('#job-title')} is chosen")
    check("#job" not in b.run("return location.href"), "the address names no job until one is chosen")
    check("kept the plan before" in b.text("#job-body"), "the list of plans shows what is kept")
    for name, meaning in ("planned", "runs of the planner for a job"), ("kept", "kept the plan they had"):
        check(name in b.text("#counts") and meaning in b.text("#counts"), f"the counter {name} is explained")
    b.call("POST", "/actions", {"actions": [{"type": "key", "id": "k", "actions": [
        {"type": "keyDown", "value": "\ue00c"}, {"type": "keyUp", "value": "\ue00c"}]}]})
    b.wait("Escape chooses none", lambda: b.count("#drawing .tree") == 0)
    world.put(2, 4, 3, NOW + 30)
    b.wait("another state comes", lambda: "210" in b.text("#counts"))
    check(b.count("#drawing .tree") == 0, "without a choice no job is shown")
    world.put(2, 4, 3)
    b.wait("the first state is back", lambda: "210" not in b.text("#counts"))


def check_choice(world, state):
    b, job = world.browser, state["jobs"][1]
    b.run("document.querySelector(arguments[0]).focus()", f"#job-table button[title='job {job['id']}']")
    b.call("POST", "/actions", {"actions": [{"type": "key", "id": "k", "actions": [
        {"type": "keyDown", "value": "\ue007"}, {"type": "keyUp", "value": "\ue007"}]}]})
    b.wait("Enter chooses a job", lambda: b.text("#job-title") == job["name"])
    check("of 250\u202f000, about 3 h 25 min left" in b.text("#job-facts"), "the remaining time is shown")
    check("of 250\u202f000" in b.text("#job-table"), "the table shows the total of iterations")
    trees = job["plan"]["plan"]["trees"]
    check(b.count("#drawing .tree") == len(trees), "each tree is drawn")
    check(b.count("#drawing .tree path.arrow") == sum(len(t["up"]) for t in trees), "each tree has all its edges")
    check(b.count("#history tbody tr") == len(job["history"]), "all its plans are listed")
    check(b.run("return document.querySelector('.choose[aria-pressed=true]').textContent") == job["name"],
          "the row is marked as chosen")
    check(job["id"] in b.run("return location.hash"), "the address names the chosen job")
    b.call("POST", "/actions", {"actions": [{"type": "key", "id": "k", "actions": [
        {"type": "keyDown", "value": "\ue00c"}, {"type": "keyUp", "value": "\ue00c"}]}]})
    b.wait("Escape chooses none", lambda: b.count("#drawing .tree") == 0)


def check_switches(world, state):
    """A tree through switches is drawn over the network, with its server, and switches show whose cells they hold."""
    b, job = world.browser, state["jobs"][0]
    tree, adds = job["plan"]["plan"]["trees"][0], [cells["switch"] for cells in job["cells"]]
    server = tree["root"].split("/")[0]
    b.run("document.querySelector(arguments[0]).click()", f"#job-table button[title='job {job['id']}']")
    b.wait("a click chooses the job", lambda: b.text("#job-title") == job["name"])
    check(b.count("#drawing .tree.through path.arrow") == len(tree["up"]), "all edges over switches are drawn")
    check(b.count("#drawing .tree.through .root") == 1, "the server is marked as root")
    check(b.count("#drawing rect.switch.adds") == len(adds), f"switches that add are marked: {adds}")
    check(b.count("#drawing rect.switch.forwards") == len(tree.get("forwards", [])), "so are those that forward")
    titles = b.run("return [...document.querySelectorAll('#drawing .nodes title')].map((t) => t.textContent)")
    check(any(title.startswith(f"{adds[0]}\n") and f"{job['name']}: 512 slots" in title for title in titles),
          f"{adds[0]} names the owners of its cells")
    check(any(title.startswith(server) and "serves the chosen job" in title for title in titles), f"{server} serves")
    check(f"through {adds[0]}" in b.text("#trees") and f"server {tree['root']}" in b.text("#trees"), "the tree is described")
    check(f"{job['name']}: 512 slots" in b.text("#switch-table"), "the table shows whose cells there are")
    check("of 512 slots" in b.text("#switch-table"), "the table shows who has fewer than requested")
    check(b.complaints() == [], "the console is empty")


def check_filter(world):
    b = world.browser
    b.type("#job-filter", "whisper")
    b.wait("the filter leaves one", lambda: b.count("#job-table tbody tr") == 1)
    b.run("const f = document.querySelector('#job-filter'); f.value = ''; f.dispatchEvent(new Event('input'))")
    b.click("#job-table th:nth-child(1) button")
    names = "return [...document.querySelectorAll('#job-table tbody th')].map((th) => th.innerText)"
    check(b.run(names) == sorted(b.run(names)), "a click on the first column sorts by it")
    b.click("#job-table th:nth-child(1) button")
    check(b.run(names) == sorted(b.run(names), reverse=True), "a second click turns that round")


def check_live(world):
    b = world.browser
    b.run("document.querySelector('#job-table tbody tr').marked = true")
    world.put(2, 4, 3, NOW + 50)
    b.wait("new figures come by themselves", lambda: "350" in b.text("#counts"))
    check(b.run("return document.querySelector('#job-table tbody tr').marked === true"), "rows stay the same")
    check(b.complaints() == [], "the console is empty")


def check_away(world):
    b = world.browser
    world.stop()
    b.wait("the page reports that the manager does not answer", lambda: "has not answered since" in b.text("#trouble"))
    check(b.run("return document.querySelector('#trouble').getAttribute('role')") == "alert", "as an alert")
    check(b.count("#job-table tbody tr") == 3, "what was there is still shown")
    world.start()
    b.wait("it goes on when the manager is back", lambda: b.text("#live") == "Live")
    check(b.run("return document.querySelector('#trouble').hidden"), "the alert is gone")
    b.complaints()


def check_large(world):
    b = world.browser
    world.put(32, 32, 200)
    b.wait("200 jobs come", lambda: "of 200 jobs" in b.text("#job-count"))
    check(b.count("#job-table tbody tr") == 100, "a hundred rows at first")
    check(b.count("#drawing .cell") == 1024, "each host has its place")
    b.click("#job-all")
    b.wait("the rest is shown", lambda: b.count("#job-table tbody tr") == 200)
    world.put(1, 1, 0)
    b.wait("one host and no job", lambda: b.text("#job-count") == "No jobs.")
    check(b.count("#drawing circle.host") == 1, "the topology is drawn anew")
    check(b.complaints() == [], "the console is empty")


def check_rows_of_names(world):
    """Twenty racks leave no room for the names of all switches: names appear at regular intervals, up to the last
    switch."""
    b = world.browser
    world.put(20, 10, 50)
    b.wait("200 hosts are drawn", lambda: b.count("#drawing .cell") == 200)
    names = b.run("return [...document.querySelectorAll('#drawing text.name')].map((text) => text.textContent)")
    numbers = [int(name[4:]) for name in names if name.startswith("leaf")]
    steps = {after - before for before, after in zip(numbers, numbers[1:])}
    check(numbers[0] == 0 and len(steps) == 1 and numbers[-1] + max(steps) > 19, f"names of switches: {numbers}")


def check_narrow(world):
    b = world.browser
    state = cluster_state.make(2, 4, 3, NOW, 1)
    state["jobs"][0]["name"] = "a-job-that-a-script-has-named-" * 8
    world.serve(state)
    b.resize(500, 900)
    b.wait("three jobs again", lambda: b.count("#job-table tbody tr") == 3)
    b.wait("nothing is wider than a narrow screen",
           lambda: b.run("return document.documentElement.scrollWidth <= document.documentElement.clientWidth"))
    wide = b.run("return document.querySelector('#job-table tbody th').getBoundingClientRect().width")
    check(wide < 300, f"a job's name leaves room for what it does, not {wide} pixels")


def check_terminal(world, url):
    command = [world.banyan, "status", "--manager", url, "--token-file", world.folder / "token"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    check("resnet50-0" in shown and "links, the busiest" in shown, "banyan status shows the same")
    printed = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True, timeout=60).stdout
    check(json.loads(printed)["jobs"][0]["name"] == "resnet50-0", "banyan status --json is the state")
    (world.folder / "wrong").write_text("0123456789abcdef0123\n")
    bad = subprocess.run([*command[:-1], world.folder / "wrong"], capture_output=True, text=True, timeout=60)
    check(bad.returncode == 1 and "requires another token" in bad.stderr, "a wrong token is reported")


def main():
    world = World(*sys.argv[1:])
    state = world.put(2, 4, 3)
    try:
        url = world.start()
        check_terminal(world, url)
        world.browser = Browser(world.folder / "browser")
        check_token(world, url)
        world.browser.complaints()  # A 401 counts as a complaint.
        check_jobs(world, state)
        check_first(world)
        check_choice(world, state)
        check_switches(world, state)
        check_filter(world)
        check_live(world)
        check_away(world)
        check_large(world)
        check_rows_of_names(world)
        check_narrow(world)
    finally:
        if world.browser:
            world.browser.close()
        world.stop()


if __name__ == "__main__":
    main()
