"""Drives Chromium through chromedriver over plain HTTP, as far as the tests of the page need it."""
import json
import subprocess
import time
import urllib.request

WAIT = 60  # seconds to wait for a condition


class Browser:
    def __init__(self, folder):
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                       text=True)
        self.base = f"http://127.0.0.1:{self.find_port()}"
        options = {"args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                            f"--user-data-dir={folder}", "--window-size=1400,1000"]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        self.base += "/session/" + self.call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]

    def find_port(self):
        for line in self.driver.stdout:
            if "successfully on port" in line:
                return int(line.rsplit(" ", 1)[1].rstrip(".\n"))
        raise SystemExit("chromedriver does not start")

    def call(self, method, path, body=None):
        data = json.dumps(body if body is not None else {}).encode() if method == "POST" else None
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=120) as response:
            return json.load(response)["value"]

    def open(self, url):
        self.call("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        """Returns the result of the script, which is the body of a function."""
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0])?.innerText ?? null", selector)

    def count(self, selector):
        return self.run("return document.querySelectorAll(arguments[0]).length", selector)

    def wait(self, what, test):
        """Waits until test() is true. A failure reports `what`."""
        end = time.monotonic() + WAIT
        while not test():
            if time.monotonic() > end:
                raise SystemExit(f"failed: {what}; the page shows: {self.run('return document.body.innerText')[:2000]}")
            time.sleep(0.05)

    def find(self, selector):
        return next(iter(self.call("POST", "/element", {"using": "css selector", "value": selector}).values()))

    def click(self, selector):
        self.call("POST", f"/element/{self.find(selector)}/click")

    def type(self, selector, text):
        self.call("POST", f"/element/{self.find(selector)}/value", {"text": text})

    def resize(self, width, height):
        self.call("POST", "/window/rect", {"width": width, "height": height})

    def complaints(self):
        """Returns the console's unexpected messages since the last call."""
        return [row["message"] for row in self.call("POST", "/se/log", {"type": "browser"}) if row["level"] == "SEVERE"]

    def close(self):
        try:
            self.call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait(20)
