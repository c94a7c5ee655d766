import shutil
import subprocess
import tempfile

import pytest

import harness


def pytest_configure(config):
    config.addinivalue_line("markers", "long: storms, cycles and soaks; not in every run")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    item.failed_once = getattr(item, "failed_once", False) or report.failed


class Daemons:
    """Starts daemons for one test, and looks after them when it is over."""

    def __init__(self):
        self.started = []

    def __call__(self, models, limit_mib=None, options=(), wrap=(), environment=None, folder=None, wait=True, **more):
        port = harness.free_port()
        folder = folder or tempfile.mkdtemp(prefix="ct-")
        text = harness.config(port, models, limit_mib, **more)
        daemon = harness.Daemon(harness.PROGRAM, folder, text, port, options, wrap, environment)
        self.started.append(daemon)
        if wait:
            daemon.wait_ready()
        return daemon

    def finish(self, failed):
        """Each ends cleanly when asked and leaves no process; where the test failed, its log is shown."""
        faults = []
        for daemon in reversed(self.started):
            if daemon.process.poll() is None:
                try:
                    status = daemon.stop(30)
                except subprocess.TimeoutExpired:
                    status = "still running 30 s after SIGTERM"
                    daemon.process.kill()
                    daemon.process.wait()
                if status != 0:
                    faults.append(f"the daemon's end: {status}")
        for folder in {daemon.folder for daemon in self.started}:
            try:
                harness.wait_for("no process left", lambda: not harness.children_of(folder))
            except AssertionError:
                left = harness.children_of(folder)
                faults.append(f"left running: {left}")
                for pid, _ in left:
                    harness.kill(pid)
        for daemon in self.started:
            if failed or faults:
                print(f"--- log of the daemon in {daemon.folder}\n{daemon.tail(80)}")
            daemon.log.close()
            daemon.notify.close()
            shutil.rmtree(daemon.folder, ignore_errors=True)
        return faults


@pytest.fixture
def start(request):
    daemons = Daemons()
    yield daemons
    faults = daemons.finish(getattr(request.node, "failed_once", False))
    if faults and not getattr(request.node, "failed_once", False):
        pytest.fail("; ".join(faults))
