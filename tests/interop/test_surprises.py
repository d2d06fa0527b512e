# pyright: basic, reportMissingImports=false
"""
Faults of libraries, without what envrax does about them: each test fails once one is mended.

Then correct its row of `envrax/libraries/surprises.toml`.
"""

import dataclasses
import importlib
from types import SimpleNamespace
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from interop.by_hand import by_hand, called

import envrax

pytestmark = pytest.mark.filterwarnings("ignore")
KEY = jax.random.key(0)
module = importlib.import_module


def test_the_step_count_of_jumanji_s_tetris_stays_zero() -> None:
    env = called(module("jumanji").make, "Tetris-v0")
    state, _ = by_hand(env.reset)(KEY)
    for _ in range(2):
        state, timestep = by_hand(env.step)(state, jnp.array([0, 0]))
    assert state.step_count == 2 and timestep.observation.step_count == 0


def test_the_hash_of_the_start_of_pgx_s_chess_is_that_of_no_position() -> None:
    state = by_hand(module("pgx").make("chess").init)(KEY)._x
    hashed = module("pgx._src.games.chess")._zobrist_hash(state)
    assert not np.array_equal(state.hash_history[0], hashed)


def test_a_tie_in_pgx_s_go_is_a_loss_for_black() -> None:
    env = called(module("pgx.go").Go, size=5, komi=0)
    state, step = by_hand(env.init)(KEY), by_hand(env.step)
    black = int(state.current_player)
    state = step(step(state, 25), 25)  # two passes
    assert state.terminated and state.rewards[black] == -1


def test_the_bar_is_no_backgammon_in_pgx() -> None:
    board = jnp.zeros(28, jnp.int32).at[26].set(15).at[25].set(-1).at[10].set(-14)
    assert called(module("pgx.backgammon")._calc_win_score, board) == 2


def test_a_spawn_in_gymnax_s_asterix_removes_an_entity() -> None:
    """With one row free of eight, it is not found by one key of eight, and with none by no key."""
    asterix = module("gymnax.environments.minatar.asterix")
    keys = jax.random.split(KEY, 64)
    for taken, least in ((jnp.ones(8, int), 64), (jnp.ones(8, int).at[3].set(0), 1)):
        rows, found = by_hand(jax.vmap(asterix.while_sample_slots, (0, None)))(keys, taken)
        lost = (found == 0) & (taken[rows] == 1)  # what is written there is an empty entity
        assert lost.sum() >= least


def test_the_agent_of_gymnax_s_four_rooms_stands_in_walls() -> None:
    rooms = module("gymnax.environments.misc.rooms")
    env = called(rooms.FourRooms, use_visual_obs=True)
    params = env.default_params.replace(resample_init_pos=True)
    image, _ = by_hand(jax.vmap(env.reset_env, (0, None)))(jax.random.split(KEY, 64), params)
    assert ((image[..., 0] == 1) & (image[..., 1] == 1)).any()


def test_a_second_wall_never_comes_in_jaxtari_s_breakout() -> None:
    game = module("jaxtari.games.jax_breakout")
    state = SimpleNamespace(lives=jnp.int32(5), all_blocks_cleared=jnp.bool_(True))
    assert by_hand(lambda: game.JaxBreakout._get_done.__wrapped__(None, state))()


def test_a_day_of_jaxtari_s_enduro_has_441_seconds() -> None:
    consts = called(module("jaxtari.games.jax_enduro").EnduroConstants)
    assert (consts.day_cycle_time, consts.frame_rate) == (441, 60)  # in ALE 13,312 frames


def test_the_rival_s_fish_cost_nothing_in_jaxtari_s_fishing_derby() -> None:
    game = module("jaxtari.games.jax_fishingderby").FishingDerby
    scores = [
        SimpleNamespace(p1=SimpleNamespace(score=0), p2=SimpleNamespace(score=x)) for x in (0, 6)
    ]
    assert game._get_reward.__wrapped__(None, *scores) == 0


def test_no_conic_view_of_jaxmarl_s_smax_has_the_first_ally() -> None:
    def seen(view: str) -> Any:
        env = called(module("jaxmarl").make, "SMAX", observation_type=view)
        _, state = by_hand(env.reset)(KEY)
        inner = getattr(state, "state", state)
        moved = inner.replace(unit_positions=inner.unit_positions.at[0].add(0.5))
        before, after = (by_hand(env.get_obs)(x) for x in (inner, moved))
        return [name for name in env.agents if not np.array_equal(before[name], after[name])]

    assert "ally_1" in seen("unit_list") and "ally_1" not in seen("conic")


def test_the_last_step_of_jaxmarl_s_coin_game_pays_nothing() -> None:
    env = called(module("jaxmarl").make, "coin_game", num_inner_steps=10)

    def rewards(key: Any, step: int) -> Any:
        _, state = env.reset(key)
        at = state.replace(step=jnp.full_like(state.step, step))
        actions = dict(zip(env.agents, jax.random.randint(key, (2,), 0, 5), strict=True))
        return env.step_env(key, at, actions)[2]

    paid = by_hand(jax.vmap(rewards, (0, None)))
    keys = jax.random.split(KEY, 256)
    some, none = (np.stack(jax.tree.leaves(paid(keys, step))) for step in (3, 9))
    assert some.any() and not none.any()


def test_the_eleventh_sapling_of_craftax_is_forgotten() -> None:
    logic = module("craftax.craftax_classic.game_logic")
    full = SimpleNamespace(
        growing_plants_mask=jnp.ones(10, bool),
        growing_plants_positions=jnp.zeros((10, 2), jnp.int32),
        growing_plants_age=jnp.zeros(10, jnp.int32),
    )
    static = SimpleNamespace(max_growing_plants=10)
    positions, *_ = called(logic.add_new_growing_plant, full, jnp.array([3, 3]), True, static)
    assert not (positions == 3).any()


def test_instructions_of_octax_clear_the_flag() -> None:
    alu = module("octax.instructions.alu")
    assert alu.alu_set(jnp.uint8(1), jnp.uint8(7))[1] == 0


def test_a_step_of_octax_takes_one_from_the_timer_and_wraps() -> None:
    create = module("octax.environments").create_environment
    env = called(create, "ufo")[0]
    state, *_ = by_hand(env.reset)(KEY)
    zero, ten = (
        by_hand(env.step)(state.replace(delay_timer=jnp.uint8(x)), 2)[0].delay_timer
        for x in (0, 10)
    )
    assert (zero, ten) == (255, 9)
    with pytest.raises(TypeError, match="disable_delay"):
        called(create, "pong", disable_delay=True)


def test_some_resets_of_xminigrid_s_blocked_unlock_have_no_key() -> None:
    env, params = called(module("xminigrid").make, "MiniGrid-BlockedUnlockPickUp")
    grids = by_hand(jax.vmap(env.reset, (None, 0)))(params, jax.random.split(KEY, 512)).state.grid
    has_key = (grids[..., 0] == module("xminigrid.core.constants").Tiles.KEY).any((1, 2))
    assert 0.9 < has_key.mean() < 0.98


def test_one_tile_of_xminigrid_makes_three() -> None:
    rules = module("xminigrid.core.rules")
    a, b, c = (jnp.array([x, 1], jnp.uint8) for x in (3, 4, 5))
    grid = jnp.zeros((3, 3, 2), jnp.uint8).at[1, 1].set(a)
    grid = grid.at[0, 1].set(b).at[1, 0].set(b).at[2, 1].set(b)
    made = called(rules.TileNearRule(a, b, c), grid, None, 4, jnp.array([1, 1]))
    assert (jax.tree.leaves(made)[0] == c).all(-1).sum() == 3


def test_gymnasium_s_functional_cartpole_never_pays_minus_one() -> None:
    env = module("gymnasium.envs.phys2d.cartpole").CartPoleFunctional()
    params = dataclasses.replace(env.get_default_params(), sutton_barto_reward=True)
    stands, fallen = jnp.zeros(4), jnp.array([0.0, 0.0, 1.0, 0.0])
    assert called(env.terminal, fallen, KEY, params)
    assert called(env.reward, stands, 1, fallen, KEY, params) == 0


def test_an_end_within_an_action_repeat_of_brax_is_lost() -> None:
    base, training = module("brax.envs.base"), module("brax.envs.wrappers.training")

    class EndsAtTwo(base.Env):
        observation_size = action_size = 1
        backend = "none"

        def reset(self, rng: Any) -> Any:
            zero = jnp.float32(0)
            return base.State(zero, jnp.zeros(1), zero, zero, {}, {})

        def step(self, state: Any, action: Any) -> Any:
            t = state.pipeline_state + 1
            done = (t == 2).astype(jnp.float32)
            return state.replace(pipeline_state=t, done=done)

    env = called(training.EpisodeWrapper, EndsAtTwo(), 100, 4)
    assert by_hand(env.step)(by_hand(env.reset)(KEY), jnp.zeros(1)).done == 0


def test_navix_picks_up_with_full_hands() -> None:
    navix = module("navix")
    env = called(navix.make, "Navix-UnlockPickup-v0", disable_autoreset=True)
    state = by_hand(env.reset)(KEY).state
    player, box = state.get_player(idx=0), state.get_boxes()
    beside = box.position[0] - jnp.array([0, 1])  # faces east
    player = player.replace(position=beside, direction=jnp.int32(0), pocket=jnp.int32(99))
    after = called(navix.actions.pickup, state.set_player(player))
    assert after.get_player(idx=0).pocket == box.id[0] != 99


@pytest.mark.parametrize(
    ("id", "rewards"), [("GoToDoor-5x5", {0, 1}), ("Dynamic-Obstacles-5x5-Random", {0, 1})]
)
def test_navix_needs_no_done_and_collisions_are_free(id: str, rewards: set[int]) -> None:
    """Without the action `done`; some episodes end by themselves with 0, which MiniGrid pays -1."""
    batch = envrax.make_vec(f"navix/Navix-{id}-v0", 64, pre_warm=False)
    start = envrax.start(batch, KEY)

    def policy(memory: Any, obs: Any, rng: Any) -> Any:
        return jax.random.randint(rng, (64,), 0, 6), memory, None

    steps = envrax.rollout(batch, policy, start, 60)[1]
    assert {*np.unique(steps.reward).tolist()} == rewards
    assert id.startswith("GoTo") or (steps.terminated & (steps.reward == 0)).any()


def test_do_shoot_moves_in_jaxmarl_s_smax() -> None:
    env = called(module("jaxmarl").make, "SMAX", action_type="continuous")
    _, state = by_hand(env.reset)(KEY)
    inner = getattr(state, "state", state)
    actions = jnp.full((env.num_agents, 4), 0.5).at[:, 1].set(1.0)
    moves, attacks = called(env._decode_continuous_actions, KEY, inner, actions)
    assert (jnp.abs(moves).sum(-1) > 0).all() and (attacks == 0).all()


def test_mana_of_craftax_comes_every_nine_steps() -> None:
    """At intelligence 2, which should speed 31 steps by a quarter."""
    name = "Craftax-Symbolic-v1"
    env = called(module("craftax.craftax_env").make_craftax_env_from_name, name, auto_reset=False)
    shapes = jax.eval_shape(by_hand(lambda key: env.reset_env(key, env.default_params)[1]), KEY)
    state = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    state = state.replace(player_intelligence=jnp.int32(2))
    logic = module("craftax.craftax.game_logic")
    update = by_hand(lambda x: logic.update_player_intrinsics(x, 0, env.static_env_params))
    for _ in range(9):
        state = update(state)
    assert state.player_mana == 1


def test_sensors_of_forces_stay_zero_in_mjx() -> None:
    """Where no constraint is possible. A joint limit that is never reached mends it."""
    mujoco, mjx = module("mujoco"), module("mujoco.mjx")
    xml = """<mujoco><option gravity="0 0 0"/><worldbody><body><joint name="a" {}/>
    <geom size="0.1" contype="0" conaffinity="0"/></body></worldbody><actuator><motor joint="a"
    name="m"/></actuator><sensor><actuatorfrc actuator="m"/></sensor></mujoco>"""

    def force(limit: str) -> Any:
        model = mujoco.MjModel.from_xml_string(xml.format(limit))
        data = mjx.make_data(mjx.put_model(model, impl="jax")).replace(ctrl=jnp.ones(1))
        return by_hand(mjx.forward)(mjx.put_model(model, impl="jax"), data).sensordata[0]

    assert (force(""), force('limited="true" range="-100 100"')) == (0, 1)


def test_disabled_actuators_pull_in_mjx() -> None:
    mujoco, mjx = module("mujoco"), module("mujoco.mjx")
    xml = """<mujoco><option actuatorgroupdisable="1"/><worldbody><body><joint name="a"/>
    <geom size="0.1"/></body></worldbody><actuator><motor joint="a" group="1"/></actuator>
    </mujoco>"""
    model = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(model)
    data.ctrl[:] = 1
    mujoco.mj_forward(model, data)
    put = mjx.put_model(model, impl="jax")
    theirs = by_hand(mjx.forward)(put, mjx.make_data(put).replace(ctrl=jnp.ones(1)))
    assert (data.actuator_force[0], theirs.actuator_force[0]) == (0, 1)


def test_gymnasium_s_functional_batch_keeps_an_old_end_and_hands_over_the_whole_batch() -> None:
    class Walk(module("gymnasium.experimental.functional").FuncEnv):
        observation_space = module("gymnasium").spaces.Box(0, 9, (1,))
        action_space = module("gymnasium").spaces.Discrete(2)

        def initial(self, rng: Any, params: Any = None) -> Any:
            return jnp.zeros(1)

        def transition(self, state: Any, action: Any, rng: Any, params: Any = None) -> Any:
            return state + 1

        def observation(self, state: Any, rng: Any, params: Any = None) -> Any:
            return state

        def reward(self, *args: Any) -> Any:
            return jnp.float32(0)

        def terminal(self, state: Any, rng: Any, params: Any = None) -> Any:
            return state[0] == 2

        def state_info(self, state: Any, params: Any = None) -> dict[str, Any]:
            return {}

        def transition_info(self, state: Any, action: Any, after: Any, params: Any = None) -> Any:
            return {"at": after[0]}

    batched = module("gymnasium.envs.functional_jax_env").FunctionalJaxVectorEnv
    env = called(batched, Walk(), num_envs=3)
    called(env.reset, seed=0)
    for _ in range(2):
        *_, infos = called(env.step, np.zeros(3, int))
    assert infos["at"].shape == (1,)
    called(env.reset, seed=0)
    assert (called(env.step, np.zeros(3, int))[0] == 0).all()  # a start again, and no step


def classic_craftax() -> tuple[Any, Any]:
    """A state of zeros of Craftax-Classic, all of it grass, and its sizes."""
    env = called(
        module("craftax.craftax_env").make_craftax_env_from_name,
        "Craftax-Classic-Symbolic-v1",
        False,
    )
    shapes = jax.eval_shape(by_hand(lambda key: env.reset_env(key, env.default_params)[1]), KEY)
    state = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    grass = module("craftax.craftax_classic.constants").BlockType.GRASS.value
    at = jnp.array([32, 32], state.player_position.dtype)
    return state.replace(map=jnp.full_like(state.map, grass), player_position=at), env


def test_a_bite_unlocks_wake_up_in_craftax() -> None:
    state, env = classic_craftax()
    beside = state.zombies.position.at[0].set(jnp.array([32, 33]))
    zombies = state.zombies.replace(position=beside, mask=state.zombies.mask.at[0].set(True))
    state = state.replace(zombies=zombies, is_sleeping=jnp.bool_(True), player_health=jnp.int32(9))
    update = module("craftax.craftax_classic.game_logic").update_mobs
    state = by_hand(lambda x: update(KEY, x, env.default_params, env.static_env_params))(state)
    wake_up = module("craftax.craftax_classic.constants").Achievement.WAKE_UP.value
    assert state.player_health == 2 and state.achievements[wake_up]


def test_a_zombie_of_craftax_that_despawned_comes_back() -> None:
    state, env = classic_craftax()
    zombies = state.zombies.replace(health=state.zombies.health.at[0].set(5))
    do = module("craftax.craftax_classic.game_logic").do_action
    state = by_hand(lambda x: do(KEY, x, 5, env.static_env_params))(state.replace(zombies=zombies))
    assert not zombies.mask.any() and state.zombies.mask[0]


def test_recipes_of_craftax_are_not_crafter_s() -> None:
    """Crafter wants more than one stone for a furnace, and none for a pickaxe of iron."""
    state, env = classic_craftax()
    logic = module("craftax.craftax_classic.game_logic")
    constants = module("craftax.craftax_classic.constants")
    action, block = constants.Action, constants.BlockType
    held = {name: jnp.int32(1) for name in ("wood", "stone", "coal", "iron")}
    table = state.map.at[31, 32].set(block.CRAFTING_TABLE.value)
    state = state.replace(inventory=state.inventory.replace(**held), map=table)
    facing = state.replace(player_direction=jnp.int32(4))
    place = by_hand(
        lambda x: logic.place_block(x, action.PLACE_FURNACE.value, env.static_env_params)
    )
    placed = place(facing)
    assert (placed.map == block.FURNACE.value).any() and placed.inventory.stone == 0
    make = by_hand(lambda x: logic.do_crafting(x, action.MAKE_IRON_PICKAXE.value))
    again = placed.replace(inventory=state.inventory)
    assert make(again).inventory.iron_pickaxe == 1
    assert make(placed).inventory.iron_pickaxe == 0  # all but the stone


def test_the_second_die_may_be_forfeited_in_pgx_s_backgammon() -> None:
    """With 1 and 2: after 10 to 11, 14 goes to 16, but after 10 to 12 no checker goes by 1."""
    backgammon = module("pgx.backgammon")
    legal = by_hand(backgammon._legal_action_mask)
    board = jnp.zeros(28, jnp.int32).at[jnp.array([10, 14])].set(1).at[26].set(13)
    board = board.at[jnp.array([13, 15])].set(-2).at[27].set(-11)
    by_one, by_two, other_by_two = 12 * 6, 12 * 6 + 1, 16 * 6 + 1
    one, two = jnp.array([0, -1, -1, -1]), jnp.array([1, -1, -1, -1])
    assert legal(called(backgammon._move, board, by_one), two)[other_by_two]
    assert legal(board, jnp.array([0, 1, -1, -1]))[by_two]
    assert not legal(called(backgammon._move, board, by_two), one)[6:].any()


def test_a_third_repetition_of_pgx_s_animal_shogi_is_missed() -> None:
    """Kings that go round in three moves; then the position stands a third time."""
    env = called(module("pgx").make, "animal_shogi")
    labels = by_hand(jax.vmap(module("pgx.animal_shogi").Action._from_label))(jnp.arange(96))
    moves = zip(np.asarray(labels.from_).tolist(), np.asarray(labels.to).tolist(), strict=True)
    named = {move: label for label, move in enumerate(moves)}
    state, step = by_hand(env.init)(KEY), by_hand(env.step)
    boards = []
    for n, move in enumerate([(3, 2), (2, 1), *[(7, 3), (3, 2), (2, 7)] * 2]):
        for _ in range(2):
            assert state.legal_action_mask[named[move]]
            state = step(state, named[move])
        boards += [state._board] if n % 3 == 1 else []
    assert len(boards) == 3 and all((x == boards[0]).all() for x in boards)
    assert not state.terminated


def test_bullets_of_pgx_s_seaquest_stay() -> None:
    move = by_hand(module("pgx.minatar.seaquest")._update_enemy_bullets)
    right, left = jnp.array([9, 5, 1]), jnp.array([0, 5, 0])
    none = -jnp.ones((25, 3), jnp.int32)
    there = jnp.int32(0), jnp.int32(0), jnp.bool_(False)
    gone_right = move(none.at[0].set(right), *there)[0]
    assert gone_right[0, 0] == 10  # kept, outside of the board
    flying = jnp.array([7, 3, 0])
    hangs = move(none.at[0].set(left).at[1].set(flying), *there)[0]
    assert (move(hangs, *there)[0] == hangs).all() and (hangs[1] == jnp.array([6, 3, 0])).all()


def test_only_the_last_seat_of_pgx_s_sparrow_mahjong_wins_by_its_draw() -> None:
    mahjong = module("pgx.sparrow_mahjong")
    complete = jnp.zeros(11, jnp.int32).at[:6].set(1)
    wins = []
    for seat in range(3):
        hands = jnp.zeros((3, 11), jnp.int32).at[seat].set(complete)
        state = mahjong.State(_hands=hands, _turn=jnp.int32(3 + seat))
        wins.append(bool(called(mahjong._check_tsumo, state, jnp.full(3, 5))))
    assert wins == [False, False, True]


def test_full_reset_of_playground_loses_the_truncation() -> None:
    source = "mujoco_playground._src"
    base, wrapper = module(f"{source}.mjx_env"), module(f"{source}.wrapper")

    class Endless:
        unwrapped = None

        def reset(self, rng: Any) -> Any:
            zero = jnp.float32(0)
            return base.State(zero, zero, zero, zero, {}, {})

        def step(self, state: Any, action: Any) -> Any:
            return state.replace(reward=jnp.float32(1))

    def last(full_reset: bool) -> Any:
        env = called(wrapper.wrap_for_brax_training, Endless(), 2, full_reset=full_reset)
        state = by_hand(env.reset)(jax.random.key_data(jax.random.split(KEY, 3)))
        for _ in range(2):
            state = by_hand(env.step)(state, jnp.zeros((3, 1)))
        assert state.done.all()
        return state.info["truncation"], state.info["episode_metrics"]["sum_reward"]

    assert np.array(last(False)).tolist() == [[1, 1, 1], [2, 2, 2]]
    assert np.array(last(True)).tolist() == [[0, 0, 0], [0, 0, 0]]


def test_the_auto_reset_of_stoa_forgets_the_params() -> None:
    types, wrappers = module("stoa.env_types"), module("stoa.core_wrappers.auto_reset")
    first, last = (types.StepType.__dict__[name] for name in ("FIRST", "TERMINATED"))

    @chex.dataclass
    class State:
        rng_key: Any

    class Starts(module("stoa.environment").Environment):
        """Begins at the number that is its params, and ends at once."""

        action_space = observation_space = state_space = None

        def reset(self, rng_key: Any, env_params: Any = 0) -> Any:
            begun = types.TimeStep(first, jnp.ones(()), jnp.ones(()), jnp.float32(env_params), {})
            return State(rng_key=rng_key), begun

        def step(self, state: Any, action: Any, env_params: Any = 0) -> Any:
            return state, self.reset(state.rng_key, env_params)[1].replace(step_type=last)

    env = wrappers.AutoResetWrapper(Starts())
    state, begun = called(env.reset, KEY, 7)
    ended = called(env.step, state, 0, 7)[1]
    assert (begun.observation, ended.observation) == (7, 0)


def mujoco_and_mjx(xml: str, steps: int, **fields: Any) -> tuple[Any, Any]:
    """The data of both engines after the same steps."""
    mujoco, mjx = module("mujoco"), module("mujoco.mjx")
    model = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(model)
    for name, value in fields.items():
        getattr(data, name)[:] = value
    put = mjx.put_model(model, impl="jax")
    theirs = mjx.put_data(model, data, impl="jax")
    step = by_hand(lambda x: jax.lax.fori_loop(0, steps, lambda _, y: mjx.step(put, y), x))
    theirs = step(theirs)
    mujoco.mj_step(model, data, nstep=steps)
    return data, theirs


def test_get_data_of_mjx_drops_a_contact_at_a_distance() -> None:
    xml = """<mujoco><worldbody><geom type="plane" size="1 1 1" margin="0.1"/><body pos="0 0 0.11">
    <freejoint/><geom size="0.1" margin="0.1"/></body></worldbody></mujoco>"""
    mujoco, mjx = module("mujoco"), module("mujoco.mjx")
    model = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    back = called(mjx.get_data, model, called(mjx.put_data, model, data, impl="jax"))
    assert (data.ncon, back.ncon, back.nefc == data.nefc) == (1, 0, True)


def test_implicitfast_of_mjx_damps_a_saturated_servo() -> None:
    xml = """<mujoco><option integrator="{}" gravity="0 0 0"/><worldbody><body><joint name="a"/>
    <geom size="0.1"/></body></worldbody><actuator><velocity joint="a" kv="10" forcerange="-1 1"/>
    </actuator></mujoco>"""
    fast = [x.qpos[0] for x in mujoco_and_mjx(xml.format("implicitfast"), 40, ctrl=5)]
    euler = [x.qpos[0] for x in mujoco_and_mjx(xml.format("Euler"), 40, ctrl=5)]
    assert abs(euler[0] - euler[1]) < 1e-4 and fast[1] < 0.8 * fast[0]


@pytest.mark.parametrize(
    ("joint", "motor"),
    [('damping="0 1 1"', ""), ("", 'armature="0.5"'), ("", 'delay="0.02" nsample="20"')],
)
def test_mjx_takes_new_attributes_for_zero(joint: str, motor: str) -> None:
    xml = """<mujoco><option gravity="0 0 0"/><worldbody><body><joint name="a" {}/>
    <geom size="0.1"/></body></worldbody><actuator><motor joint="a" {}/></actuator></mujoco>"""
    mujoco, mjx = (x.qpos[0] for x in mujoco_and_mjx(xml.format(joint, motor), 40, ctrl=5))
    without = mujoco_and_mjx(xml.format("", ""), 40, ctrl=5)[1].qpos[0]
    assert mjx == without and abs(mujoco - mjx) > 0.1 * abs(mjx)


def test_a_distribution_of_distrax_without_a_legal_action_samples_minus_one() -> None:
    nothing = called(module("distrax").Categorical, jnp.full(3, -jnp.inf))
    assert (called(nothing.sample, seed=KEY), called(nothing.mode)) == (-1, 0)


def test_safetensors_cannot_load_bytes_of_bfloat16_and_scrambles_views() -> None:
    flax, numpy = module("safetensors.flax"), module("safetensors.numpy")
    with pytest.raises(KeyError, match="BF16"):
        flax.load(flax.save({"a": jnp.ones(2, jnp.bfloat16)}))
    table = np.arange(6).reshape(2, 3)
    assert numpy.load(numpy.save({"a": table.T}))["a"].ravel().tolist() == [0, 1, 2, 3, 4, 5]


def test_a_board_that_comes_back_is_a_loss_in_pgx_s_go_only() -> None:
    env = called(module("pgx.go").Go, size=3)
    state, step = by_hand(env.init)(KEY), by_hand(env.step)
    other = module("pettingzoo.classic.go_v5").raw_env(board_size=3)
    other.reset()
    for move in (4, 0, 2, 8, 6, 7, 1, 3, 6, 0):
        mover = int(state.current_player)
        assert state.legal_action_mask[move] and other.last()[0]["action_mask"][move]
        state = step(state, move)
        other.step(move)
    assert state.terminated and state.rewards[mover] == -1
    assert not any(other.terminations.values())


def test_nan_does_not_end_brax_s_pendulum() -> None:
    env = called(module("brax.envs").get_environment, "inverted_pendulum")
    state = by_hand(env.step)(by_hand(env.reset)(jax.random.PRNGKey(0)), jnp.array([jnp.nan]))
    assert np.isnan(state.obs).all() and (state.done, state.reward) == (0, 1)
    guarded = envrax.wrappers.NanGuard(envrax.make("brax/inverted_pendulum"))
    _, _, reward, done, _ = guarded.step(guarded.reset(KEY)[1], jnp.array([jnp.nan]))
    assert done.item() and reward.item() == 0


def test_a_certain_von_mises_of_distrax_has_no_probability() -> None:
    def log_prob(concentration: float) -> Any:
        return called(lambda: module("distrax").VonMises(0.0, concentration).log_prob(0.0))

    assert np.isneginf(log_prob(89.0)) and log_prob(88.0) > 1


def test_units_of_jaxmarl_s_smax_begin_outside_of_the_map() -> None:
    smax = module("jaxmarl.environments.smax")
    scenario = smax.map_name_to_scenario("smacv2_5_units")
    env = called(module("jaxmarl").make, "SMAX", scenario=scenario)
    rest = {name: jnp.int32(4) for name in env.agents}

    def dead(key: Any) -> Any:
        return ~env.step_env(key, env.reset(key)[1], rest)[1].unit_alive

    assert by_hand(jax.vmap(dead))(jax.random.split(KEY, 128)).any()


def test_surplus_enemies_of_jaxmarl_s_smax_are_marines() -> None:
    generator = module("jaxmarl.environments.smax.distributions").UniformUnitTypeDistribution
    drawn = jax.vmap(called(generator, 3, 5, 32, 32, 6).generate)
    types = by_hand(drawn)(jax.random.split(KEY, 128))
    assert [len(np.unique(unit)) for unit in types.T] == [6] * 6 + [1] * 2


def test_mjx_forgets_noslip() -> None:
    mujoco, mjx = module("mujoco"), module("mujoco.mjx")

    def speeds(iterations: int) -> Any:
        model = mujoco.MjModel.from_xml_string(
            f"""<mujoco><option gravity="3.355 0 -9.218" noslip_iterations="{iterations}"/>
            <worldbody><geom type="plane" size="5 5 .1"/><body pos="0 0 .0999"><freejoint/>
            <geom type="box" size=".1 .1 .1" mass="1" solref=".05 1"/></body></worldbody>
            </mujoco>"""
        )
        data = mujoco.MjData(model)
        mujoco.mj_step(model, data, 100)
        ours = called(mjx.put_model, model)
        begun = called(mjx.make_data, ours)
        ended = by_hand(lambda x: jax.lax.fori_loop(0, 100, lambda _, x: mjx.step(ours, x), x))
        return data.qvel[0], float(ended(begun).qvel[0])

    (plain, ours), (held, ours_held) = speeds(0), speeds(10)
    assert held < plain / 4 and ours_held == ours > plain / 2


def test_a_rangefinder_of_mjx_needs_a_material() -> None:
    mujoco, mjx = module("mujoco"), module("mujoco.mjx")
    model = mujoco.MjModel.from_xml_string(
        """<mujoco><worldbody><geom type="box" size=".1 1 .1" pos="1 0 1"/><body pos="0 0 1">
        <joint type="slide"/><geom size=".05"/><site name="a" zaxis="1 0 0"/></body></worldbody>
        <sensor><rangefinder site="a"/></sensor></mujoco>"""
    )
    ours = called(mjx.put_model, model)
    with pytest.raises(TypeError, match="Slice size at index 0 in gather"):
        by_hand(mjx.step)(ours, called(mjx.make_data, ours))


def test_xminigrid_sees_through_walls_and_not_its_pocket() -> None:
    env, params = called(module("xminigrid").make, "MiniGrid-UnlockPickUp")
    begin = by_hand(jax.vmap(lambda key: env.reset(params, key)))
    starts = begin(jax.random.split(KEY, 32))
    things = [3, 4, 5, 11, 12]  # they lie behind a locked door
    assert np.isin(starts.observation[..., 0], things).any()
    start = jax.tree.map(lambda x: x[0], starts)
    agent = start.state.agent
    carries = agent.replace(pocket=jnp.full_like(agent.pocket, 7))
    turned = by_hand(lambda x: env.step(params, x, 1).observation)
    with_it = start.replace(state=start.state.replace(agent=carries))
    np.testing.assert_array_equal(turned(start), turned(with_it))
