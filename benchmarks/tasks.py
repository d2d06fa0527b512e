"""What `python -m benchmarks scores` learns, and the scores that are known of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

SECONDS = 20.0  # of training


@dataclass(frozen=True)
class Task:
    """
    What is learned.

    Attributes
    ----------
    id : str
        Of the environment.
    known : float, optional
        The score at which it is solved.
    source : str
        What that score is.
    agents : tuple of str
        Those that learn one policy in a world, with equal spaces; the others draw legal actions.
        A single one in a game is a seat, against uniform play.
    options : dict
        Keywords of the library's constructor.
    algorithm : {"PPO", "DQN"}
    images : bool
        Whether PPO has the example's convolution.
    seconds : float
        CPU seconds of training.
    """

    id: str
    known: float | None = None
    source: str = ""
    agents: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict[str, Any], hash=False)
    algorithm: str = "PPO"
    images: bool = False
    seconds: float = SECONDS

    @property
    def library(self) -> str:
        return self.id.partition("/")[0]


def _each(library: str, names: Sequence[str], known: float | None = None, source: str = "") -> Any:
    return [Task(f"{library}/{name}", known, source) for name in names]


def _game(name: str) -> Task:
    options = {"player": "all"}
    return Task(f"pgx/{name}", 1.0, "every game won", ("player_0",), options)


def _world(id: str, agents: str, n: int, known: float | None = None, source: str = "") -> Task:
    options = {"agents": "all"} if id.startswith("jumanji/") else {}
    return Task(id, known, source, tuple(f"{agents}_{i}" for i in range(n)), options)


def _seen(library: str, names: str, **more: Any) -> list[Task]:
    return [Task(f"{library}/{name}", images=True, **more) for name in names.split()]


GYM = "threshold of Gymnasium's registry"
ZOO = "PPO of the RL Baselines3 Zoo, 100,000 steps"
MOST = "the largest reward in every step"
GOAL = "the goal in every episode"
TASKS = [
    *_each("classic", ["CartPole-v0"], 475, GYM),
    *_each("classic", ["Acrobot-v0"], -100, GYM),
    *_each("classic", ["Pendulum-v0"], -172.2, ZOO),
    *_each("classic", ["Catch-v0"], 1, "every ball caught"),
    *_each("classic", ["ConnectFour-v0"], 1, "every game won"),
    *_each("classic", ["Ball-v0"]),
    *_seen("classic", "Maze-v0"),
    Task("classic/MountainCar-v0", -110, GYM, algorithm="DQN"),
    *_each("gymnax", ["CartPole-v1"], 475, GYM),
    *_each("gymnax", ["Acrobot-v1"], -100, GYM),
    *_each("gymnax", ["Pendulum-v1"], -172.2, ZOO),
    *_each("gymnax", ["MountainCarContinuous-v0"], 90, GYM),
    Task("gymnax/MountainCar-v0", -110, GYM, algorithm="DQN"),
    *_each("gymnax", ["Catch-bsuite"], 1, "every ball caught"),
    *_each("gymnax", ["DeepSea-bsuite"], 0.99, "the treasure in every episode"),
    *_each("gymnax", ["FourRooms-misc"], 1, GOAL),
    *_each("gymnax", ["FrozenLake-misc"], 0.7, GYM),
    *_each("gymnax", ["MemoryChain-bsuite"], 1, "the right answer in every episode"),
    *_each("gymnax", ["DiscountingChain-bsuite", "UmbrellaChain-bsuite", "MetaMaze-misc"]),
    *_each("gymnax", ["PointRobot-misc", "Reacher-misc", "Swimmer-misc"]),
    *_each("gymnax", ["Breakout-MinAtar", "Asterix-MinAtar", "Freeway-MinAtar"]),
    *_each("gymnax", ["SpaceInvaders-MinAtar"]),
    *_seen("gymnax", "Pong-misc", known=1000, source="no ball lost"),
    *map(_game, ["tic_tac_toe", "connect_four", "othello", "hex"]),
    *_each("pgx", ["2048", "minatar-breakout", "minatar-asterix", "minatar-freeway"]),
    *_each("pgx", ["minatar-space_invaders"]),
    *_each("jumanji", ["Maze-v0"], 1, GOAL),
    *_each("jumanji", ["Snake-v1"], 143, "a snake on every cell"),
    *_each("jumanji", ["Minesweeper-v0"], 90, "every cell without a mine revealed"),
    *_each("jumanji", ["Sudoku-very-easy-v0"], 1, "every puzzle solved"),
    *_each("jumanji", ["Game2048-v1", "Knapsack-v1", "TSP-v1", "CVRP-v1", "GraphColoring-v1"]),
    *_each("jumanji", ["SlidingTilePuzzle-v0", "Tetris-v0"]),
    _world("jumanji/Cleaner-v0", "agent", 3),
    _world("jumanji/LevelBasedForaging-v0", "agent", 2),
    *_each("navix", ["Navix-Empty-5x5-v0", "Navix-Empty-Random-8x8-v0"], 1, GOAL),
    *_each("navix", ["Navix-DoorKey-5x5-v0", "Navix-FourRooms-7x7-v0"], 1, GOAL),
    *_each("navix", ["Navix-LavaGapS5-v0", "Navix-SimpleCrossingS9N1-v0"], 1, GOAL),
    *_each("navix", ["Navix-Dynamic-Obstacles-5x5-v0", "Navix-GoToDoor-5x5-v0"], 1, GOAL),
    *_each("xminigrid", ["MiniGrid-Empty-5x5", "MiniGrid-Empty-8x8", "MiniGrid-DoorKey-5x5"]),
    *_each("xminigrid", ["MiniGrid-EmptyRandom-8x8", "MiniGrid-FourRooms", "MiniGrid-MemoryS8"]),
    *_each("xminigrid", ["XLand-MiniGrid-R1-9x9"]),
    _world("jaxmarl/MPE_simple_v3", "agent", 1),
    _world("jaxmarl/MPE_simple_spread_v3", "agent", 3),
    _world("jaxmarl/MPE_simple_tag_v3", "adversary", 3),
    _world("jaxmarl/switch_riddle", "agent", 3, 1, "every riddle solved"),
    _world("jaxmarl/overcooked", "agent", 2),
    _world("jaxmarl/MPE_simple_facmac_v1", "adversary", 3),
    *_each("brax", ["fast"], 66_867, "a push forward in every step"),
    *_each("brax", ["inverted_pendulum"], 950, GYM),
    *_each("brax", ["inverted_double_pendulum"], 9100, GYM),
    *_each("brax", ["reacher"]),
    *_each("playground", ["PendulumSwingup", "CartpoleBalance"], 1000, MOST),
    *_each("playground", ["CartpoleSwingup", "PointMass", "ReacherEasy"], 1000, MOST),
    *_each("craftax", ["Craftax-Classic-Symbolic-v1"], 22, "all achievements"),
    *_each("craftax", ["Craftax-Classic-Pixels-v1"], 22, "all achievements"),
    *_each("craftax", ["Craftax-Symbolic-v1"], 4.97, "PPO of Craftax's scoreboard, 1 M steps"),
    *_each("kinetix", ["s/h4_thrust_aim", "s/h1_thrust_over_ball", "s/h6_unicycle_right"]),
    *_each("kinetix", ["s/h0_weak_thrust", "s/h5_rotate_fall"]),
    *_seen("octax", "brix flight_runner space_flight1 space_flight2 space_flight3 spacejam"),
    *_seen("octax", "space_flight4 space_flight5 space_flight6 space_flight7 worm", seconds=60),
    *_seen("popgym_arcade", "CartPoleEasy CartPoleMedium CartPoleHard NavigatorEasy"),
    *_seen("popgym_arcade", "NoisyCartPoleEasy NoisyCartPoleMedium NoisyCartPoleHard"),
]
# Why an id does not learn: what was found when it was looked into.
WHY: dict[str, str] = {
    "brax/fast": "the algorithm: positions and returns grow without bound, and the critic's error "
    "outweighs what one push gains; the policy drifts until it stands still, where all rewards are "
    "0 (three seeds)",
    "jumanji/TSP-v1": "the network: it sees the present city and the tour as numbers, not as "
    "places; always going to the nearest city returns -4.5 in the same episodes",
    "jumanji/Minesweeper-v0": "the budget: after 120 s the mean is 10.8 and rises",
    "gymnax/MemoryChain-bsuite": "the network: it has no memory, and the answer is shown in the "
    "first step",
    "classic/Maze-v0": "exploration: none of 100 episodes of uniform play reaches the goal, two of "
    "100 does after training; not trained for longer",
    "octax/brix": "the budget, it seems: 31,232 steps; not trained for longer",
    "octax/space_flight4": "the budget, it seems: after 60 s the intervals still touch; not "
    "trained for longer",
    "octax/worm": "the budget, it seems: after 60 s the intervals still touch; not trained for "
    "longer",
    "popgym_arcade/NavigatorEasy": "the budget: drawing is so slow that there are four updates",
    "jaxmarl/overcooked": "exploration: uniform play serves 3 soups in 100 episodes, and the "
    "library's shaped rewards are not used; not trained for longer",
    "playground/PointMass": "exploration: there is no reward away from the target, which few "
    "episodes of uniform play reach; not trained for longer",
}
# What `--check` trains: one of each adapter that the newest JAX runs, and of the examples.
CHECKED = (
    *("classic/CartPole-v0", "gymnax/Breakout-MinAtar", "jumanji/GraphColoring-v1"),
    *("pgx/connect_four", "navix/Navix-Empty-5x5-v0", "xminigrid/MiniGrid-Empty-5x5"),
    *("brax/inverted_pendulum", "jaxmarl/MPE_simple_spread_v3"),
)
