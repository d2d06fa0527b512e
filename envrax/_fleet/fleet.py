"""What `MultiEnv` and `MultiVecEnv` share: all members step in one compiled call."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, ClassVar

import jax
from tqdm import tqdm

from envrax._fleet.groups import Group, Traceable, TracesDifferError, group_identical, one_for_all
from envrax._fleet.members import Members
from envrax._fleet.padding import Padded
from envrax._fleet.programs import Programs, call_member
from envrax._jax.cache import DEFAULT_CACHE_DIR, CacheDir
from envrax._jax.keys import key_types, require_key
from envrax._jax.programs import require_not_donated
from envrax.env import JaxEnv
from envrax.spaces.conform import conform
from envrax.wrappers.jit import compilation


class Fleet(Padded, Members):
    """
    M members as one unit; `MultiEnv` and `MultiVecEnv` say what they are, and document the rest.

    Parameters
    ----------
    members : list or dict
        The members.
    """

    _bar: ClassVar[str]

    def __init__(self, members: Any) -> None:
        super().__init__(members)
        who = type(self).__name__
        self._names = [f"{who} member {label!r}" for label in self._container.labels]
        self._compiled = [i for i, m in enumerate(self._members) if m.traceable and _compiled(m)]
        self._action_spaces = {i: self._members[i].action_space for i in self._compiled}
        self._donating = {i for i in self._compiled if _compiled(self._members[i]).donate}

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
        returned, rngs = self._run(lambda programs: programs.reset(rng))
        return self._gathered("reset", returned, lambda i: (rngs[i],))

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
        state, action = self._container.read(who, states=states, actions=actions)
        for i, space in self._action_spaces.items():
            name = f"actions[{self._container.labels[i]!r}]"
            action[i] = conform(space, action[i], who, name)
        for i in self._donating:
            require_not_donated(state[i], who)
        stepped = self._run(lambda programs: programs.step(state, action))
        return self._gathered("step", stepped, lambda i: (state[i], action[i]))

    def action_masks(self, states: Any) -> Any:
        """
        Which actions are legal in every member; see `JaxEnv.action_mask`.

        Parameters
        ----------
        states : list or dict
            The members' states.

        Returns
        -------
        list or dict
            The mask of every member; None for one of which all actions are legal.
        """
        (state,) = self._container.read(f"{type(self).__name__}.action_masks", states=states)
        pairs = zip(self._members, state, strict=True)
        return self._container.build(member.action_mask(one) for member, one in pairs)

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
        position = self._container.position(who, idx)
        require_key(rng, who, "Pass one key, that of this member.")
        if position not in self._action_spaces:
            return self._members[position].reset(rng)
        return self._run(lambda programs: programs.at[position].reset(rng))

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
        position = self._container.position(who, idx)
        if position not in self._action_spaces:
            return self._members[position].step(state, action)
        action = conform(self._action_spaces[position], action, who, "action")
        if position in self._donating:
            require_not_donated(state, who)
        return self._run(lambda programs: programs.at[position].step(state, action))

    @cached_property
    def _traceables(self) -> dict[int, Traceable]:
        return {i: self._traceable(self._members[i]) for i in self._compiled}

    @cached_property
    def _programs(self) -> Programs:
        # Built on first use, since members are compiled as they are then.
        return self._grouped(group_identical(self._traceables))

    def _grouped(self, together: Iterable[Sequence[int]]) -> Programs:
        groups: list[Group] = []
        for positions in together:
            members = [self._traceables[i] for i in positions]
            functions = zip(*(member.functions for member in members), strict=True)
            groups.append(self._group(tuple(positions), *map(one_for_all, functions)))
        return Programs(groups, self._names, self._action_spaces, self._donating)

    def _run(self, call: Callable[[Programs], Any]) -> Any:
        try:
            return call(self._programs)
        except TracesDifferError:  # for arguments of other types, for example
            self._programs = self._grouped([i] for i in self._compiled)
            return call(self._programs)

    @abstractmethod
    def _traceable(self, member: Any) -> Traceable:
        """What is traced of a member."""

    @abstractmethod
    def _group(self, positions: tuple[int, ...], *functions: Callable[..., Any]) -> Group:
        """Members that are traced to the same, as one; the `functions` of their traceables."""

    def __getstate__(self) -> dict[str, Any]:
        built = "_programs", "_traceables"
        return {name: value for name, value in vars(self).items() if name not in built}

    def _gathered(
        self, method: str, returned: dict[int, Any], arguments: Callable[[int], tuple[Any, ...]]
    ) -> Any:
        """A container for each thing that the members return, those that run by themselves too."""
        for i, (name, member) in enumerate(zip(self._names, self._members, strict=True)):
            if i not in returned:
                returned[i] = call_member(name, method, getattr(member, method), *arguments(i))
        listed = [returned[i] for i in range(len(self._members))]
        return tuple(self._container.build(values) for values in zip(*listed, strict=True))

    def compile(self, *, progress: bool = True) -> None:
        """
        Compile ahead of the first `reset`, `step`, `reset_at` and `step_at`.

        Afterwards none of them compiles anything, for typed and for legacy keys.

        Parameters
        ----------
        progress : bool, default True
            Show a bar that counts programs.

        Raises
        ------
        ValueError
            If members name different directories for the persistent compile cache.
        """
        cache_dir, pairs = self._cache_dir(), 2 * len(key_types())  # reset and step for each kind
        n_pairs = sum(bool(_compiled(m)) for m in self._members if not m.traceable)
        n_pairs += 1 + len(self._programs.alone) if self._compiled else 0
        with tqdm(total=pairs * n_pairs, desc=self._bar, disable=not (progress and n_pairs)) as bar:
            for i, member in enumerate(self._members):
                self._compile_member(member, cache_dir, i in self._compiled)
                bar.update(pairs if _compiled(member) and not member.traceable else 0)
            if self._compiled:
                self._run(lambda programs: programs.compile(cache_dir, bar.update))

    def _cache_dir(self) -> CacheDir:
        named = dict.fromkeys(_compiled(self._members[i]).cache_dir for i in self._compiled)
        named.pop(DEFAULT_CACHE_DIR, None)
        if len(named) > 1:
            raise ValueError(
                f"{type(self).__name__}.compile: expected members with one cache_dir, since they "
                f"are compiled together; got {', '.join(map(repr, named))}. Build them with the "
                "same one."
            )
        return next(iter(named), DEFAULT_CACHE_DIR)

    @abstractmethod
    def _compile_member(self, member: Any, cache_dir: CacheDir, together: bool) -> None:
        """Have a member compile what is its own; `together`: what it steps is compiled here."""


def _compiled(member: Any) -> Any:
    """How a member is compiled; None if it is not."""
    return compilation(member) if isinstance(member, JaxEnv) else member.compilation
