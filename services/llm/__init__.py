"""The gateway to the model: every answer is named by its content, on disk before it is read, and paid at most once.

gateway = Gateway(db=db, run=run, lane=LiveLane(Endpoint()), prices=PriceTable.load(None), …)
answer = await gateway.ask(request, steps)
answer.tool_uses
"""

from taskyard.services.llm.answers import Answer
from taskyard.services.llm.budget import Budget
from taskyard.services.llm.gateway import CacheMode, Gateway, Patience, Served
from taskyard.services.llm.ledger import MIGRATIONS, CacheStats, Ledger, Spent
from taskyard.services.llm.live import Endpoint, LiveLane, NotAccepted
from taskyard.services.llm.prices import Price, PriceTable
from taskyard.services.llm.requests import Request, name_of

__all__ = [
    "MIGRATIONS",
    "Answer",
    "Budget",
    "CacheMode",
    "CacheStats",
    "Endpoint",
    "Gateway",
    "Ledger",
    "LiveLane",
    "NotAccepted",
    "Patience",
    "Price",
    "PriceTable",
    "Request",
    "Served",
    "Spent",
    "name_of",
]
