"""
The metrics that a modelet declares itself, and their rules. Counters and histograms hold what they have gained since the
last report, which `take` returns with the new values of gauges. src/runtime/worker/modelet/own-metrics.ts and metric-rules.ts do
the same for JavaScript. A modelet may use its metrics in its own threads.
"""
import json
import math
import os
import re
import sys
from bisect import bisect_left
from contextlib import contextmanager
from contextvars import ContextVar
from threading import RLock
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Set

MOST_METRICS = 100
MOST_SERIES = 1000
MOST_LABELS = 10
MOST_BUCKETS = 50
LONGEST_HELP = 500
LONGEST_VALUE = 200
# Good for durations in seconds.
DEFAULT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
# Labels that the exposition sets itself.
TAKEN = ("runtime", "stage", "worker", "le")
# modelet_model_runs_total counts the runs of all stages.
TAKEN_NAME = "runs_total"
NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,99}")
NAME_RULE = "consists of letters, digits and _, begins with no digit, and has at most 100 characters"


class Series:
    """The value of a metric with one set of label values. Of a histogram, the counts of its buckets and their sum."""

    def __init__(self, buckets: int) -> None:
        self.value = 0.0
        self.counts = [0] * buckets

    def add(self, gained: float) -> None:
        """The sum stays finite, because reports are JSON, which has no infinity."""
        self.value = max(-sys.float_info.max, min(self.value + gained, sys.float_info.max))


class Metric:
    def __init__(self, metrics: "Metrics", about: Dict[str, Any]) -> None:
        self._metrics = metrics
        self.about = about
        self.key = json.dumps(about)
        self.series: Dict[str, Series] = {}

    def _change(self, labels: Dict[str, Any], apply: Callable[[Series], None]) -> None:
        self._metrics.change(self, self._key_of(labels), apply)

    def _add(self, gained: float, labels: Dict[str, Any]) -> None:
        self._change(labels, lambda series: series.add(gained))

    def _number(self, value: Any, least: Optional[float] = None) -> float:
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if math.isfinite(number) and (least is None or number >= least):
            return number
        rule = "a finite number" if least is None else f"a finite number of at least {least:g}"
        raise TypeError(f"{self.about['type']} {self.about['name']} takes {rule}; found {_shown(value)}")

    def _key_of(self, values: Dict[str, Any]) -> str:
        """Returns the label values, in the order of the labels, as a JSON array."""
        labels = self.about["labels"]
        if set(values) != set(labels):
            wanted = f"needs a value for each of its labels {', '.join(labels)}" if labels else "has no labels"
            raise TypeError(f"{self.about['type']} {self.about['name']} {wanted}; found {', '.join(values) or 'none'}")
        return json.dumps([str(values[label])[:LONGEST_VALUE] for label in labels])


class Counter(Metric):
    """A number that only grows."""

    def inc(self, value: float = 1, /, **labels: Any) -> None:
        self._add(self._number(value, 0), labels)


class Gauge(Metric):
    """A number that may rise and fall; each worker has its own."""

    def set(self, value: float, /, **labels: Any) -> None:
        number = self._number(value)

        def apply(series: Series) -> None:
            series.value = number

        self._change(labels, apply)

    def inc(self, value: float = 1, /, **labels: Any) -> None:
        self._add(self._number(value), labels)

    def dec(self, value: float = 1, /, **labels: Any) -> None:
        self._add(-self._number(value), labels)


class Histogram(Metric):
    """Values, counted in buckets."""

    def observe(self, value: float, /, **labels: Any) -> None:
        number = self._number(value)
        place = bisect_left(self.about["buckets"], number)

        def apply(series: Series) -> None:
            series.counts[place] += 1
            series.add(number)

        self._change(labels, apply)


class Metrics:
    """Makes the metrics of a modelet. A name that was declared before gives the same metric again."""

    def __init__(self) -> None:
        self._lock = RLock()
        os.register_at_fork(after_in_child=self._renew_lock)
        self._declared: Dict[str, Metric] = {}
        # Metrics and keys of the series that have changed since the last report.
        self._changed: Set[Any] = set()
        # Separate for each call: an example runs beside the calls of requests.
        self._quiet: ContextVar[bool] = ContextVar("quiet", default=False)
        self._series = 0
        self._dropped = 0
        self._dropped_at = ""

    def counter(self, name: str, help: str = "", labels: Sequence[str] = ()) -> Counter:
        return self._declare(Counter, {"type": "counter", "name": name, "help": help, "labels": labels})

    def gauge(self, name: str, help: str = "", labels: Sequence[str] = ()) -> Gauge:
        return self._declare(Gauge, {"type": "gauge", "name": name, "help": help, "labels": labels})

    def histogram(
        self, name: str, help: str = "", labels: Sequence[str] = (), buckets: Sequence[float] = DEFAULT_BUCKETS
    ) -> Histogram:
        about = {"type": "histogram", "name": name, "help": help, "labels": labels, "buckets": buckets}
        return self._declare(Histogram, about)

    @property
    def declared(self) -> bool:
        return len(self._declared) > 0

    @property
    def changed(self) -> bool:
        return len(self._changed) > 0 or self._dropped > 0

    @contextmanager
    def quietly(self) -> Iterator[None]:
        """Within it run examples, which appear in no count. Gauges still change."""
        before = self._quiet.set(True)
        try:
            yield
        finally:
            self._quiet.reset(before)

    def _renew_lock(self) -> None:
        # A thread that the child does not have may hold the lock.
        self._lock = RLock()

    def change(self, metric: Metric, key: str, apply: Callable[[Series], None]) -> None:
        if self._quiet.get() and not isinstance(metric, Gauge):
            return
        with self._lock:
            series = self._find(metric, key)
            if series is not None:
                apply(series)
                self._changed.add((metric, key))
                return
            if self._dropped == 0:
                self._dropped_at = metric.about["name"]
            self._dropped += 1

    def take(self) -> Optional[Dict[str, Any]]:
        """Returns the changes since the last call, or None if nothing has changed."""
        with self._lock:
            if not self.changed:
                return None
            counts: Dict[str, Dict[str, Any]] = {}
            gauges: Dict[str, Dict[str, float]] = {}
            for metric, key in self._changed:
                series = metric.series[key]
                if isinstance(metric, Gauge):
                    gauges.setdefault(metric.key, {})[key] = series.value
                    continue
                gained: Any = series.value
                if isinstance(metric, Histogram):
                    gained = {"counts": series.counts, "sum": series.value}
                counts.setdefault(metric.key, {})[key] = gained
                series.value = 0.0
                series.counts = [0] * len(series.counts)
            changes: Dict[str, Any] = {"counts": counts, "gauges": gauges, "dropped": self._dropped}
            if self._dropped > 0:
                changes["droppedAt"] = self._dropped_at
            self._changed.clear()
            self._dropped = 0
            return changes

    def _declare(self, kind: Any, asked: Dict[str, Any]) -> Any:
        about = ruled(asked)
        with self._lock:
            known = self._declared.get(about["name"])
            if known is None:
                known = kind(self, about)
                # A metric beyond the limit works, but is not shown.
                if len(self._declared) < MOST_METRICS:
                    self._declared[about["name"]] = known
            # Code that only looks a metric up need not repeat its help.
            elif {**about, "help": ""} != {**known.about, "help": ""}:
                name, first = about["name"], known.about
                raise TypeError(f"{name} is a {first['type']} already, with {_words(first)}; {SAME}")
            return known

    def _find(self, metric: Metric, key: str) -> Optional[Series]:
        known = metric.series.get(key)
        if known is None and self._series < MOST_SERIES and self._declared.get(metric.about["name"]) is metric:
            known = metric.series[key] = Series(len(metric.about.get("buckets", ())) + 1)
            self._series += 1
        return known


SAME = "declare it the same way each time"


def ruled(asked: Dict[str, Any]) -> Dict[str, Any]:
    """Returns the description as it is kept. Raises a TypeError that names the rule that it breaks."""
    name, help_text, labels = asked["name"], asked["help"], asked["labels"]
    if not _is_name(name):
        raise TypeError(f"the name of a metric {NAME_RULE}; found {_shown(name)}")
    if name == TAKEN_NAME:
        raise TypeError(f"the name {name} is taken: the stage counts its runs under it")
    if not isinstance(help_text, str):
        raise TypeError(f"the help of {name} must be text; found {_shown(help_text)}")
    if not isinstance(labels, (list, tuple)) or len(labels) > MOST_LABELS or len(set(labels)) < len(labels):
        raise TypeError(f"the labels of {name} must be a list of at most {MOST_LABELS} different names; found {_shown(labels)}")
    for label in labels:
        if not _is_name(label) or label.startswith("__"):
            raise TypeError(f"a label of {name} {NAME_RULE}, and does not begin with __; found {_shown(label)}")
        if label in TAKEN:
            raise TypeError(f"{name} cannot have the label {label}: the stage sets it")
    about = {**asked, "help": help_text[:LONGEST_HELP], "labels": list(labels)}
    if "buckets" in asked:
        about["buckets"] = _bounds(name, asked["buckets"])
    return about


def _bounds(name: str, buckets: Any) -> List[float]:
    try:
        bounds = [float(bound) for bound in buckets]
    except (TypeError, ValueError):
        bounds = []
    ascending = all(left < right for left, right in zip(bounds, bounds[1:]))
    if 0 < len(bounds) <= MOST_BUCKETS and ascending and all(math.isfinite(bound) for bound in bounds):
        # As JavaScript writes them, so that the label of a bucket is 1 and not 1.0 in both languages.
        return [int(bound) if bound.is_integer() else bound for bound in bounds]
    rule = f"must be a list of 1 to {MOST_BUCKETS} finite numbers in ascending order"
    raise TypeError(f"the buckets of {name} {rule}; found {_shown(buckets)}")


def _words(about: Dict[str, Any]) -> str:
    labels, buckets = about["labels"], about.get("buckets")
    named = f"the labels {', '.join(labels)}" if labels else "no labels"
    return named if buckets is None else f"{named} and the buckets {', '.join(map(str, buckets))}"


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and NAME.fullmatch(name) is not None


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str, separators=(",", ":"))
    return f"{text[:100]}..." if len(text) > 100 else text
