#!/usr/bin/python3
"""Calls on a Hawk cluster: the sum of squares, computed by processes that stay. Needs the Python package hawk."""
import hawk


def square(x):
    return x * x


if __name__ == "__main__":
    with hawk.Executor() as ex:
        print(sum(ex.map(square, range(1000))))
        print(ex.submit(divmod, 7, 2).result())
