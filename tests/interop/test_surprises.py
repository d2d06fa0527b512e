# pyright: basic, reportMissingImports=false
"""
Faults of libraries, without what envrax does about them: each test fails once one is mended.

Then correct its row of `envrax/libraries/surprises.toml`.
"""

import dataclasses
import importlib
from types import SimpleNamespace
from typing import Any

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
