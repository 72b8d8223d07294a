"""Work on several items at a time, whose results keep the items' order."""

import collections
import concurrent.futures
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def map_in_order(
    pool: concurrent.futures.Executor,
    function: Callable[[_Item], _Result],
    items: Iterable[_Item],
    most_waiting: int,
) -> Iterator[_Result]:
    """Yields `function(item)` of each item, in order.

    Unlike `pool.map` it takes few items at a time, so that neither all items nor all
    results are in memory.

    Args:
      pool: computes the results.
      function: of one item.
      items: read in the calling thread.
      most_waiting: items whose results are not yielded yet; at least those that the
        pool computes at a time.
    """
    waiting: collections.deque[concurrent.futures.Future[_Result]] = collections.deque()
    for item in items:
        waiting.append(pool.submit(function, item))
        if len(waiting) > most_waiting:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
