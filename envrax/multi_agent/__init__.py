"""Environments of several agents (worlds), and views of them for trainers of one agent."""

from envrax.multi_agent.agent_slots import agents_as_slots
from envrax.multi_agent.one_agent import OneAgent, OneAgentState, with_policy_state
from envrax.multi_agent.world import MultiAgentEnv

__all__ = ["MultiAgentEnv", "OneAgent", "OneAgentState", "agents_as_slots", "with_policy_state"]
