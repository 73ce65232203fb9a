"""A client of the decision service: `Client` blocks, `AsyncClient` is for asyncio.

    from switchmdp.client import Client

    with Client("http://localhost:8000") as client:
        client.create_model("shop", states=["new", "basket"], actions=["sport", "voucher"])
        decision = client.decide("shop", state="new", session="ann")
        print(decision.action_name)
        client.feedback("shop", decision, reward=1, next_state="basket")

Both classes have the same methods, with the same arguments and results. The client needs httpx
(`pip install 'switchmdp[client]'`), and imports neither Numba, SciPy nor NumPy.

- `calls`: one function per operation of the service: what is sent, and what is returned
- `connection`: `Client` and `AsyncClient`, which send calls and retry them
- `answers`: what the methods return, and the errors that they raise
"""

from switchmdp.client.answers import (
    ActionExplanation,
    Added,
    Arm,
    BadRequest,
    Bucket,
    Change,
    Conflict,
    ConnectionFailed,
    Decision,
    Expired,
    Explanation,
    Forbidden,
    History,
    Invalid,
    Model,
    ModelPage,
    NotFound,
    Problem,
    Restart,
    ServiceError,
    ServiceFailed,
    Successor,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    UnexpectedAnswer,
)
from switchmdp.client.connection import AsyncClient, Client, Retries

__all__ = [
    "ActionExplanation", "Added", "Arm", "AsyncClient", "BadRequest", "Bucket", "Change",
    "Client", "Conflict", "ConnectionFailed", "Decision", "Expired", "Explanation", "Forbidden",
    "History", "Invalid", "Model", "ModelPage", "NotFound", "Problem", "Restart", "Retries",
    "ServiceError", "ServiceFailed", "Successor", "TooManyRequests", "Unauthorized", "Unavailable",
    "UnexpectedAnswer",
]  # fmt: skip
