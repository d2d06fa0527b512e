"""What `MultiEnv` and `MultiVecEnv` share: members behind one handle, and one dispatch for all."""

import itertools
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable
from operator import attrgetter
from typing import Any, ClassVar, Generic, TypeVar

import jax
from tqdm import tqdm

from envrax._closing import Closing
from envrax._compile import DEFAULT_CACHE_DIR, CacheDir, warm_up
from envrax._container import Container
from envrax._fused import Fused, Group, group_equal, named
from envrax._keys import example_keys, require_key
from envrax._padding import Padded
from envrax._returned import require_tuple
from envrax.spaces.conform import conform

MemberT = TypeVar("MemberT")


def view(path: str) -> Any:
    """A property: one attribute of every member, in the container of the fleet."""
    read = attrgetter(path)
    return property(lambda fleet: fleet._each(read), doc=f"`{path}` of every member.")


class Fleet(Padded, Closing, Generic[MemberT]):
    """
    M members as one unit; `MultiEnv` and `MultiVecEnv` say what they are, and document the rest.

    Parameters
    ----------
    members : list or dict
        The members.
    """

    _kind: ClassVar[type]
    _group: ClassVar[type[Group]]
    _empty: ClassVar[str]
    _bar: ClassVar[str]

    def __init__(self, members: Any) -> None:
        who, what = type(self).__name__, f"{self._kind.__name__}s"
        self._form, self._members = Container.of(members, who, what)
        self._require_members(who, what)
        fused = [(i, m) for i, m in enumerate(self._members) if m.traceable and m.compilation]
        self._groups = group_equal(fused, self._group)
        self._group_at = {i: group for group in self._groups for i in group.positions}
        self._names = [f"{who} member {label!r}" for label in self._form.labels()]
        self._fused = Fused(self._groups, self._names)
        self._compilations = [m.compilation for m in self._members if m.compilation]
        self._action_spaces = {i: self._members[i].action_space for i in self._fused.positions}

    def _require_members(self, who: str, what: str) -> None:
        if not self._members:
            raise ValueError(self._empty)
        for i, member in enumerate(self._members):
            if not isinstance(member, self._kind):
                raise TypeError(
                    f"{who}: expected {what}; got {member!r} at {self._form.labels()[i]!r}."
                )
            if not member.traceable and any(member is other for other in self._members[:i]):
                raise ValueError(
                    f"{who}: expected every member that works on the host once; got {member!r} "
                    f"again at {self._form.labels()[i]!r}. Build another one."
                )

    # --- the members -----------------------------------------------------------------------------

    def _each(self, of_one: Callable[[MemberT], Any]) -> Any:
        """`of_one` of every member, in a list or a dict."""
        return self._form.build(map(of_one, self._members))

    @property
    def num_envs(self) -> int:
        """Number of members, M."""
        return len(self._members)

    @property
    def class_groups(self) -> dict[str, list[Any]]:
        """Class name of the unwrapped environment to the indices, or keys, of its members."""
        groups: dict[str, list[Any]] = {}
        for label, member in zip(self._form.labels(), self._members, strict=True):
            groups.setdefault(self._class_name(member), []).append(label)
        return groups

    @property
    def env_keys(self) -> list[Any]:
        """
        A unique name of every member, for logs: `["BallEnv_0", "BallEnv_1", "CartPole"]`.

        A dict's keys, if the fleet was built from a dict.
        """
        if self._form.keys is not None:
            return list(self._form.keys)
        return _unique([self._class_name(member) for member in self._members])

    def _class_name(self, member: Any) -> str:
        unwrapped = member.unwrapped
        return member.name if unwrapped is None else type(unwrapped).__name__

    # --- stepping --------------------------------------------------------------------------------

    def reset(self, rng: jax.Array) -> tuple[Any, Any]:
        """
        Begin an episode in every member.

        Parameters
        ----------
        rng : jax.Array
            One PRNG key. Member i gets `jax.random.split(rng, M)[i]`.

        Returns
        -------
        obs, states
            A container each, of what the members returned.
        """
        who = type(self).__name__
        require_key(rng, f"{who}.reset", f"Pass one key; {who} splits it.")
        # A fleet that nobody compiled stays out of any compiled call, for debugging.
        begin = self._fused.reset if self._compilations else self._fused.reset_uncompiled
        began, rngs = begin(rng)
        return self._gathered("reset", began, lambda i: (rngs[i],))

    def step(self, states: Any, actions: Any) -> tuple[Any, Any, Any, Any, Any]:
        """
        Take one step in every member.

        Parameters
        ----------
        states : list or dict
            The members' states.
        actions : list or dict
            The members' actions.

        Returns
        -------
        obs, states, rewards, dones, infos
            A container each, of what the members returned.

        Raises
        ------
        ValueError
            If there are too few or too many, keys are missing or unexpected, or an action has
            another shape.
        TypeError
            If a container is of the other form, or an action of another kind.
        """
        who = f"{type(self).__name__}.step"
        state, action = self._form.read(who, states=states, actions=actions)
        for i, space in self._action_spaces.items():
            action[i] = conform(space, action[i], who, self._form.path("actions", i))
        stepped: dict[int, Any] = {}
        if positions := self._fused.positions:
            at = [state[i] for i in positions], [action[i] for i in positions]
            stepped = self._fused.step(*at)
        return self._gathered("step", stepped, lambda i: (state[i], action[i]))

    def reset_at(self, idx: Any, rng: jax.Array) -> tuple[Any, Any]:
        """
        Begin an episode in one member.

        Parameters
        ----------
        idx : int or key
            An index by list rules, or a key of a fleet built from a dict.
        rng : jax.Array
            One PRNG key; the member gets it as it is.

        Returns
        -------
        obs, state
            What the member returned.

        Raises
        ------
        IndexError, KeyError
            If there is no such member.
        """
        who = f"{type(self).__name__}.reset_at"
        position = self._form.position(who, idx)
        require_key(rng, who, "Pass one key, that of this member.")
        return self._alone(position).reset(rng)

    def step_at(self, idx: Any, state: Any, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        """
        Take one step in one member.

        Parameters
        ----------
        idx : int or key
            As for `reset_at`.
        state, action
            That member's own.

        Returns
        -------
        obs, state, reward, done, info
            What the member returned.

        Raises
        ------
        IndexError, KeyError
            If there is no such member.
        """
        who = f"{type(self).__name__}.step_at"
        position = self._form.position(who, idx)
        if position in self._action_spaces:
            action = conform(self._action_spaces[position], action, who, "action")
        return self._alone(position).step(state, action)

    def _alone(self, position: int) -> Any:
        return self._group_at.get(position, self._members[position])

    def _gathered(
        self, method: str, returned: dict[int, Any], arguments: Callable[[int], tuple[Any, ...]]
    ) -> Any:
        """A container for each thing that the members return, those that run by themselves too."""
        for i, (name, member) in enumerate(zip(self._names, self._members, strict=True)):
            if i not in returned:
                with named(name):
                    returned[i] = require_tuple(
                        name, method, getattr(member, method)(*arguments(i))
                    )
        listed = [returned[i] for i in range(len(self._members))]
        return tuple(self._form.build(values) for values in zip(*listed, strict=True))

    def compile(self, *, progress: bool = True) -> None:
        """
        Compile ahead of the first `reset`, `step`, `reset_at` and `step_at`.

        Afterwards none of them compiles anything, for typed and for legacy keys. The persistent
        compile cache is that of the members if they agree on one, else the default.

        Parameters
        ----------
        progress : bool, default True
            Show a bar that counts programs.
        """
        dirs = [compilation.cache_dir for compilation in self._compilations]
        cache_dir = dirs[0] if dirs and dirs == dirs[:1] * len(dirs) else DEFAULT_CACHE_DIR
        alone = [member for i, member in enumerate(self._members) if i not in self._group_at]
        pairs = 2 * len(example_keys())  # a reset and a step for each kind of key
        n_pairs = bool(dirs) + len(self._groups) + sum(bool(m.compilation) for m in alone)
        with tqdm(total=pairs * n_pairs, desc=self._bar, disable=not (progress and dirs)) as bar:
            for member in alone:
                self._compile_member(member, cache_dir)
                bar.update(pairs * bool(member.compilation))
            for group in self._groups:
                sample = group.member.action_space.sample
                warm_up(group.reset, group.step, sample, cache_dir, bar.update)
            if dirs:
                self._warm_up_fused(cache_dir, bar.update)

    def _warm_up_fused(self, cache_dir: CacheDir, compiled: Callable[[], Any]) -> None:
        def reset(rng: jax.Array) -> tuple[None, list[Any]]:
            began, _ = self._fused.reset(rng)
            return None, [began[i][1] for i in self._fused.positions]

        def sample(rng: jax.Array) -> list[Any]:
            return [space.sample(rng) for space in self._action_spaces.values()]

        warm_up(reset, self._fused.step, sample, cache_dir, compiled)

    @abstractmethod
    def _compile_member(self, member: Any, cache_dir: CacheDir) -> None:
        """Have a member that stands alone compile what it compiles."""

    def close(self) -> None:
        """Close every member."""
        for member in self._members:
            member.close()

    def __len__(self) -> int:
        return len(self._members)


def _unique(names: list[str]) -> list[str]:
    """Number the names that occur more than once, around those that are there already."""
    counts, taken = Counter(names), set(names)
    unique: list[str] = []
    for name in names:
        if counts[name] > 1:
            candidates = (f"{name}_{i}" for i in itertools.count())
            name = next(candidate for candidate in candidates if candidate not in taken)
            taken.add(name)
        unique.append(name)
    return unique
