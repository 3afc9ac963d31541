"""BLAS has one thread while anybody needs it so, and its own number again once nobody does."""

from threading import Barrier, Thread

import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from tempering.compiling.blas_threads import on_one_blas_thread, one_blas_thread

BLAS = ThreadpoolController().select(user_api="blas")


def n_threads():
    return {library.num_threads for library in BLAS.lib_controllers}


@pytest.fixture(autouse=True)
def two_threads():
    """Begin with two threads, set by a thread that ends: a live one would keep the say over them."""
    before = max(n_threads())

    def set_to(n):
        thread = Thread(target=lambda: [library.set_num_threads(n) for library in BLAS.lib_controllers])
        thread.start()
        thread.join()

    set_to(2)
    if n_threads() != {2}:
        pytest.skip("this BLAS has no threads")
    yield
    set_to(before)


def after_overlapping(limit):
    """Enter twice, by two threads, and leave in the order of entering; return the number of threads after that."""
    entered, left = Barrier(2, timeout=30), Barrier(2, timeout=30)

    def first():
        with limit():
            entered.wait()
            entered.wait()
        left.wait()

    thread = Thread(target=first)
    thread.start()
    entered.wait()
    with limit():
        assert n_threads() == {1}
        entered.wait()
        left.wait()
    thread.join()
    return n_threads()


def test_one_thread_inside_and_all_of_them_after():
    with one_blas_thread(), one_blas_thread():
        assert n_threads() == {1}
    assert n_threads() == {2}


def test_the_last_to_leave_gives_the_threads_back():
    for _ in range(3):
        assert after_overlapping(one_blas_thread) == {2}


def test_control_limits_that_know_nothing_of_each_other_do_not():
    assert after_overlapping(lambda: threadpool_limits(1, user_api="blas")) == {1}


def test_a_function_may_be_kept_to_one_thread():
    assert on_one_blas_thread(n_threads)() == {1}
    assert n_threads() == {2}
