"""Costs of a step, read from the list of thunks that XLA writes for a GPU."""

from benchmarks.thunks import Cost, known_rounds, read, step_costs

# Written by hand in XLA's form: conditions stand at the margin.
SEQUENCE = """
000: kCommandBuffer [source]
    001: kCopy [source] kCopy
002: kWhile [sink]
condition:
    003: kCustomKernel [source] loop_compare_fusion
  body:
    000: kCommandBuffer [source]
        004: kCustomKernel [source] one
        005: kAsyncStart [source]
            007: kDynamicSliceFusion [source]
                006: kCopy [source] kCopy
        008: kAsyncDone [sink]
    009: kConditional [source]
      false_branch:
        010: kWhile [sink]
condition:
            011: kCustomKernel [source] is_any_left
          body:
            012: kCustomKernel [source] reset
            013: kWhile [sink]
condition:
                014: kCustomKernel [source] known
              body:
                015: kCustomKernel [source] round
      true_branch:
        016: kCopy [source] kCopy
    017: kCustomKernel [sink] last
"""
PROGRAM = """
  %while.1 = (s32[]) while(%x), condition=%c, body=%b, backend_config={"known_trip_count":{"n":"5"}}
  %while.2 = (s32[]) while(%x), condition=%c, body=%b
"""
METADATA = """
thunk_metadata {
  thunk_info { profile_annotation: "while.1" thunk_id: 13 }
}
thunk_metadata {
  thunk_info { profile_annotation: "while.2" thunk_id: 10 }
}
"""


def test_only_loops_of_known_length_are_counted_in_rounds() -> None:
    assert known_rounds(PROGRAM, METADATA) == {13: 5}


def test_the_costs_of_a_step_without_an_end_and_with_one() -> None:
    without, with_end = step_costs(read(SEQUENCE), known_rounds(PROGRAM, METADATA))
    # The command buffer, the copy of the branch that resets nothing, the last kernel.
    assert without == Cost(kernels=4, launches=3, syncs=1)
    # The question of the branch, two of the loop; a reset with five rounds.
    assert with_end == Cost(kernels=2 + 2 + 1 + 5 + 1, launches=1 + 2 + 1 + 5 + 1, syncs=3)


def test_what_is_in_a_command_buffer_asks_nobody() -> None:
    loop = """
000: kWhile [sink]
condition:
    001: kCustomKernel [source] compare
  body:
    002: kCommandBuffer [source]
        003: kConditional [source]
          false_branch:
            004: kCustomKernel [source] reset
          true_branch:
            005: kCopy [source] kCopy
"""
    assert step_costs(read(loop), {})[1] == Cost(kernels=1, launches=1, syncs=0)
