"""`Fleet`, the base of `MultiEnv` and `MultiVecEnv`: members stepped in one compiled call."""

from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar

import jax
from tqdm.auto import tqdm

from envrax._checks.streams import can_show_progress
from envrax._fleet.fused import Fused, call_member, noting
from envrax._fleet.members import Members
from envrax._jax.cache import DEFAULT_CACHE_DIR, CacheDir, Compilation
from envrax._jax.compiled import Compiled, compile_pair
from envrax._jax.copies import StateCopies, copy_numpy
from envrax._jax.keys import refuses_seed, require_key, split_key, to_threefry
from envrax.spaces import Space
from envrax.spaces.conform import conform_each, conformed_types


class Fleet(Members):
    """
    M members as one unit: the base of `MultiEnv` and `MultiVecEnv`, which document the rest.

    Parameters
    ----------
    members : list or dict
        The members.
    """

    _bar: ClassVar[str]

    def __init__(self, members: Any) -> None:
        super().__init__(members)
        who = type(self).__name__
        how = {i: self._compilation(m) for i, m in enumerate(self._members) if m.traceable}
        self._compilations = {
            i: compilation for i, compilation in how.items() if compilation is not None
        }
        self._copies = {i: StateCopies() for i in self._compilations}
        self._donated = [i for i, compilation in self._compilations.items() if compilation.donate]
        self._kept = [i for i in self._compilations if i not in self._donated]
        self._action_spaces = {i: self._members[i].action_space for i in self._compilations}
        self._labels = {i: f"actions[{self._container.labels[i]!r}]" for i in self._compilations}
        functions = {i: self._functions(self._members[i]) for i in self._compilations}
        resets = {i: reset for i, (reset, _) in functions.items()}
        steps = {i: step for i, (_, step) in functions.items()}
        names = [f"{who} member {label!r}" for label in self._container.labels]
        self._fused = Fused(resets, steps, names)

    @cached_property
    def _reset_program(self) -> Compiled:
        return Compiled(self._fused.reset, jit=bool(self._compilations))

    @cached_property
    def _step_program(self) -> Compiled:
        return Compiled(self._fused.step, donate=(0,), jit=bool(self._compilations))

    @refuses_seed
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
            A container each, with the results of the members.
        """
        who = type(self).__name__
        require_key(rng, f"{who}.reset", f"Pass one key; {who} splits it.")
        for write in self._write_first:
            write()
        returned, rngs = self._reset_program(copy_numpy(rng))
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
            A container each, with the results of the members.

        Raises
        ------
        ValueError
            If there are too few or too many states or actions, keys are missing or unexpected, or
            an action has the wrong shape.
        TypeError
            If there is a dict for a fleet that was built from a list, or a list for one built from
            a dict, or an action is of the wrong kind (bool, integer, float).
        """
        who = f"{type(self).__name__}.step"
        for write in self._write_first:
            write()
        state, action = self._container.read(who, states=states, actions=actions)
        conform_each(self._action_spaces, action, who, self._labels)
        donated: dict[int, Any] = {}
        kept: dict[int, Any] = {}
        acted: dict[int, Any] = {}
        for i, copies in self._copies.items():
            (donated if i in self._donated else kept)[i] = copies(state[i])
            acted[i] = action[i]
        stepped = self._step_program.call(donated, kept, acted)
        return self._gathered("step", stepped, lambda i: (state[i], action[i]))

    def pad_dims(self) -> tuple[int, int]:
        """The numbers of elements of the largest action and of the largest observation."""
        spaces = [self._spaces(member) for member in self._members]
        return max(acted.size for acted, _ in spaces), max(seen.size for _, seen in spaces)

    def action_masks(self, states: Any) -> Any:
        """
        The masks of legal actions of all members; see `JaxEnv.action_mask`.

        Parameters
        ----------
        states : list or dict
            The members' states.

        Returns
        -------
        list or dict
            The mask of every member; None where all actions are legal.
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
            One PRNG key, which the member gets unsplit.

        Returns
        -------
        obs, state
            The results of the member.

        Raises
        ------
        IndexError, KeyError
            If there is no such member.
        """
        who = f"{type(self).__name__}.reset_at"
        position = self._container.position(who, idx)
        require_key(rng, who, "Pass one key, that of this member.")
        return self._call(position, "reset", to_threefry(rng))

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
            The results of the member.

        Raises
        ------
        IndexError, KeyError
            If there is no such member.
        """
        position = self._container.position(f"{type(self).__name__}.step_at", idx)
        return self._call(position, "step", state, action)

    @abstractmethod
    def _spaces(self, member: Any) -> tuple[Space, Space]:
        """The spaces of one action and of one observation of a member."""

    @abstractmethod
    def _compilation(self, member: Any) -> Compilation | None:
        """How a member is compiled; None for one that is called on its own."""

    @abstractmethod
    def _functions(self, member: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """`reset` and `step` of a member, for tracing."""

    def _call(self, position: int, method: str, *args: Any) -> Any:
        function = getattr(self._members[position], method)
        return call_member(self._fused.names[position], method, function, *copy_numpy(args))

    def _map(
        self, who: str, function: Callable[..., Any], own: dict[str, list[Any]], **given: Any
    ) -> tuple[Any, ...]:
        """
        `function(member, **values)` of every member: a container for each of its results.

        `given` are containers, or None; `own` has lists in place of some of them.
        """
        given = {name: x for name, x in given.items() if name not in own}
        for name, x in given.items():
            if not isinstance(x, list | dict | None):
                raise TypeError(f"{who}: expected {name} in a list or dict; got {type(x)}.")
        containers = {name: x for name, x in given.items() if x is not None}
        read = self._container.read(who, **containers)
        columns = own | dict(zip(containers, read, strict=True))
        results: list[Any] = []
        for i, (name, member) in enumerate(zip(self._fused.names, self._members, strict=True)):
            values = {key: column[i] for key, column in columns.items()}
            results.append(noting(name, function, member, **(dict.fromkeys(given) | values)))
        return self._container.transpose(results)

    def _split(self, rng: jax.Array) -> list[jax.Array]:
        """A key for every member."""
        return list(split_key(copy_numpy(rng), len(self)))

    def _step_types(self, returned: Any) -> tuple[Any, Any, Any]:
        """The types of the arguments of the compiled step, from those of the results of reset."""
        begun, _ = returned
        donated = {i: begun[i][1] for i in self._donated}
        kept = {i: begun[i][1] for i in self._kept}
        actions = {i: conformed_types(space) for i, space in self._action_spaces.items()}
        return donated, kept, actions

    def _gathered(
        self, method: str, returned: dict[int, Any], arguments: Callable[[int], tuple[Any, ...]]
    ) -> Any:
        """One container for each result, with the members that are called on their own."""
        for i in range(len(self._members)):
            if i not in returned:
                returned[i] = self._call(i, method, *arguments(i))
        return self._container.transpose([returned[i] for i in range(len(self._members))])

    def compile(self, *, progress: bool = True) -> None:
        """
        Compile ahead of the first `reset`, `step`, `reset_at` and `step_at`.

        Afterwards none of them compiles anything for typed keys. The persistent compile cache is
        that of the first member that names one.

        Parameters
        ----------
        progress : bool, default True
            Show a progress bar over the members and their common program.
        """
        named = (how.cache_dir for how in self._compilations.values())
        cache_dir = next((x for x in named if x != DEFAULT_CACHE_DIR), DEFAULT_CACHE_DIR)
        members = list({id(m): m for m in self._members}.values())
        total = sum(self._compilation(m) is not None for m in members) + bool(self._compilations)
        shown = progress and total and can_show_progress()
        with tqdm(total=total, desc=self._bar, disable=not shown) as bar:
            for member in members:
                self._compile_member(member, cache_dir)
                bar.update(self._compilation(member) is not None)
            if self._compilations:
                programs = self._reset_program, self._step_program
                compile_pair(*programs, self._step_types, cache_dir)
                bar.update()

    @abstractmethod
    def _compile_member(self, member: Any, cache_dir: CacheDir) -> None:
        """Compile one member, for `reset_at` and `step_at`."""
