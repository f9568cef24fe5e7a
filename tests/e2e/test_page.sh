#!/bin/bash
# Tests the page of a manager in a real browser with invented states, and the same states in a terminal.
. "$BANYAN_SOURCE/tests/shell.sh"
for program in chromedriver chromium; do
  command -v "$program" >/dev/null || skip "there is no $program (Debian packages chromium, chromium-driver)"
done
getent hosts localhost >/dev/null || skip "chromedriver needs the name localhost, which this machine does not know: see /etc/hosts"
python3 "$BANYAN_SOURCE/tests/e2e/page_in_browser.py" "$BANYAN_BUILD/tests/e2e/serve_state" "$BANYAN" "$scratch"
