"""Tests that misuse the emulated device on purpose, and what ``--aclnn-validate`` finds in them.

Other tests mark themselves (``aclnn_findings``). These modules are imported by each test's own process, and do without pytest.
"""

MEANT: dict[str, dict[str, tuple[str, ...]]] = {
    "test_communication": {
        "test_a_refused_destruction_is_told": ("handle/use-after-destroy",),
    },
    "test_graph_models": {
        "test_a_loop_runs_until_its_value_is_zero_and_begins_with_its_default": ("memory/use-after-free",),
        "test_an_error_in_another_stream_of_a_graph_is_that_of_the_replay": ("memory/use-after-free",),
        "test_conditions_choose_what_a_graph_runs": ("handle/use-after-destroy",),
        "test_destroying_a_graph_waits_for_its_replay": ("handle/use-after-destroy",),
        "test_memory_of_a_running_graph_cannot_be_freed": ("memory/free-in-use",),
        "test_misuse_of_conditions": ("handle/use-after-destroy",),
        "test_notifies_order_streams_and_are_taken_back": ("handle/use-after-destroy",),
        "test_single_tasks_of_a_graph_are_read_and_changed": ("handle/use-after-destroy",),
    },
    "test_graph_programs": {
        "test_threads_capture_replay_and_destroy_graphs": ("memory/use-after-free",),
    },
    "test_graphs": {
        "test_a_graph_names_its_destroyed_external_event": ("handle/use-after-destroy",),
        "test_a_graph_runs_in_a_deferred_stream": ("handle/use-after-destroy",),
        "test_a_graph_runs_in_an_eager_stream": ("handle/use-after-destroy",),
        "test_a_graph_runs_what_was_captured": ("handle/use-after-destroy",),
        "test_a_graph_whose_memory_was_freed_names_the_operator_and_the_call": ("memory/use-after-free",),
        "test_a_reset_device_ends_captures_and_graphs": ("handle/use-after-destroy",),
        "test_a_task_group_is_replaced": ("handle/use-after-destroy",),
        "test_what_may_not_be_done_while_a_stream_is_captured": (
            "handle/*",
            "sync/*",
        ),
        "test_what_the_newest_release_refuses": (
            "handle/*",
            "sync/*",
        ),
    },
    "test_handles": {
        "test_a_device_address_of_before_the_end_is_not_taken_for_the_hosts": (
            "memory/invalid-address",
            "memory/unwritten-read",
        ),
        "test_a_context_ends_under_the_threads_that_have_it": ("handle/use-after-destroy",),
        "test_an_executor_that_is_destroyed_while_it_runs_finishes_its_run": ("handle/use-after-destroy",),
        "test_only_one_thread_runs_an_executor_that_runs_once": ("handle/use-after-destroy",),
        "test_shared_handles_hold_under_sanitizers": ("handle/*", "memory/*", "sync/*"),
        "test_threads_share_destroy_and_lose_everything": (
            "handle/*",
            "memory/*",
            "sync/*",
        ),
    },
    "test_mindspore": {
        "test_allocators_of_streams": ("handle/double-destroy",),
        "test_the_driver_registers_host_memory": ("memory/invalid-address",),
    },
    "test_mspti": {
        "test_a_collective_is_told_with_its_type_count_and_group": ("memory/unwritten-read",),
    },
    "test_newer_functions": {
        "test_a_cache_hint_needs_memory_and_does_nothing": ("memory/out-of-bounds",),
        "test_batches_of_copies": ("memory/out-of-bounds",),
        "test_memory_is_mapped_to_reserved_addresses": ("handle/double-destroy", "memory/*"),
        "test_operators_work_on_registered_host_memory": ("memory/invalid-address", "memory/use-after-free"),
        "test_streams_wait_for_values": ("memory/free-in-use", "memory/out-of-bounds"),
    },
    "test_operators": {
        "test_a_repeatable_executor_needs_its_tensors": ("handle/use-after-destroy",),
        "test_a_weight_gets_the_blocks_of_the_hardware_in_place": ("memory/out-of-bounds",),
        "test_addresses_are_checked_when_launching": ("memory/*",),
        "test_an_executor_works_once": ("handle/*",),
        "test_arguments_must_live_until_phase_two": ("handle/use-after-destroy",),
        "test_helpers_compute_on_the_host": ("handle/use-after-destroy",),
        "test_impossible_shapes_are_errors_with_names": ("memory/out-of-bounds",),
        "test_lists_of_scalars_and_arrays_of_bools_arrive": ("handle/list-member",),
        "test_repeatable_must_follow_phase_one_on_its_thread": ("handle/wrong-executor",),
        "test_the_workspace_must_be_there_and_large_enough": (
            "memory/out-of-bounds",
            "memory/workspace-too-small",
        ),
    },
    "test_processes": {
        "test_every_waiting_thread_learns_that_the_device_is_lost": ("sync/write-after-write",),
    },
    "test_profiling": {
        "test_a_trace_has_the_operators_of_host_and_device": ("handle/double-destroy",),
    },
    "test_properties": {  # they compare all outputs, also those that CANN leaves unwritten
        "test_the_emulated_device_gives_the_same_bits": ("memory/unwritten-output",),
        "test_the_emulated_device_of_another_soc_gives_the_same_bits": ("memory/unwritten-output",),
    },
    "test_pyacl": {
        "test_programs_import_acl_under_emulator_run": ("memory/double-free",),
    },
    "test_runtime": {
        "test_a_call_can_be_made_to_fail": ("memory/double-free",),
        "test_a_destroyed_handle_is_recognised_for_long": ("handle/double-destroy",),
        "test_a_reset_device_is_seen_no_more_by_its_peers": ("memory/use-after-free",),
        "test_a_stream_of_another_device_is_refused": ("handle/wrong-context",),
        "test_an_operator_uses_memory_of_a_peer": (
            "memory/out-of-bounds",
            "memory/use-after-free",
        ),
        "test_contexts_keep_their_streams_apart": (
            "handle/use-after-destroy",
            "handle/wrong-context",
        ),
        "test_lists_own_their_members": ("handle/*",),
        "test_misuse_of_handles_is_named": ("handle/*",),
        "test_misuse_of_memory_is_named": ("memory/*",),
        "test_new_memory_can_be_filled": ("memory/unwritten-read",),
        "test_set_and_reset_are_counted": ("memory/use-after-free",),
        "test_two_devices_compute_and_copy": ("handle/wrong-context",),
    },
    "test_safety": {
        "test_a_forked_child_writes_to_registered_memory_of_its_own": ("memory/free-in-use", "memory/invalid-address"),
        "test_a_program_without_descriptors_keeps_its_device": ("sync/write-after-write",),
        "test_communicators_of_several_devices_are_made_all_or_none": ("handle/use-after-destroy",),
        "test_destroying_a_stream_while_its_device_is_reset": ("handle/double-destroy",),
        "test_entry_points_hold_under_sanitizers": ("handle/*", "memory/*", "sync/*"),
        "test_extents_that_wrap_are_out_of_bounds": ("memory/out-of-bounds",),
        "test_idle_connections_are_few": ("sync/write-after-write",),
        "test_lists_that_cannot_be_made_hold_under_sanitizers": ("handle/*",),
        "test_lists_that_cannot_be_made_leak_nothing": ("handle/*",),
        "test_sizes_that_wrap_are_out_of_bounds": ("memory/*",),
        "test_threads_at_once_have_no_data_races": ("memory/free-in-use", "memory/unwritten-read"),
    },
    "test_sharing": {
        "test_a_killed_importer_holds_nothing": (
            "memory/invalid-address",
            "memory/out-of-bounds",
        ),
        "test_a_reset_of_the_importer_lets_the_memory_go": ("memory/unwritten-read",),
        "test_operators_of_another_process_work_on_shared_memory": ("memory/*",),
        "test_what_cannot_be_exported_is_refused": (
            "memory/invalid-address",
            "memory/out-of-bounds",
        ),
        "test_where_physical_memory_has_its_bytes_nothing_is_mapped_or_released": (
            "memory/invalid-address",
            "memory/out-of-bounds",
        ),
    },
    "test_single_operators": {
        "test_descriptions_keep_what_they_are_given": ("handle/use-after-destroy",),
    },
    "test_streams": {
        "test_a_stream_runs_while_the_program_goes_on": ("sync/read-after-write",),
        "test_an_eager_stream_is_done_when_the_call_returns": (
            "memory/free-in-use",
            "sync/read-after-write",
        ),
        "test_an_event_may_go_while_streams_wait_for_it": ("sync/read-after-write",),
        "test_an_event_releases_what_is_before_it": ("sync/read-after-write",),
        "test_destroying_a_stream_ends_its_work": (
            "memory/free-in-use",
            "sync/read-after-write",
        ),
        "test_errors_stay_with_their_stream": ("sync/write-after-write",),
        "test_host_memory_of_copies": ("memory/free-in-use",),
        "test_reading_too_early_shows_stale_data": (
            "memory/free-in-use",
            "sync/read-after-write",
        ),
    },
    "test_validate_layer": {
        "test_programs_under_the_layer": ("handle/*", "memory/*", "sync/*"),
    },
}
