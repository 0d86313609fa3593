"""A LangGraph agent that remembers its user from one thread to the next."""

from dataclasses import dataclass
from uuid import uuid4

from langchain_core.messages import HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime

from vmemo import Memory
from vmemo_integrations.langgraph import VmemoStore


@dataclass
class User:
    """The context of a run."""

    name: str


def answer(state: MessagesState, runtime: Runtime[User]) -> MessagesState:
    """Answer with what the store knows about the user, and store what the user says."""
    store, namespace = runtime.store, ("memories", runtime.context.name)
    assert store is not None
    said = state["messages"][-1].text
    known = "\n".join(item.value["text"] for item in store.search(namespace, query=said, limit=5))
    store.put(namespace, str(uuid4()), {"text": said})
    prompt = SystemMessage(f"What {runtime.context.name} said in earlier conversations:\n{known}")
    return {"messages": [ChatOpenAI(model="gpt-5-mini").invoke([prompt, *state["messages"]])]}


def main() -> None:
    """Talk in two threads: the second one knows what was said in the first."""
    with Memory("memory.db") as memory:
        graph = StateGraph(MessagesState, context_schema=User).add_node(answer).add_edge(START, "answer")
        agent = graph.compile(checkpointer=InMemorySaver(), store=VmemoStore(memory))
        for thread, said in ("monday", "I am allergic to peanuts."), ("tuesday", "Which snack do you suggest?"):
            state: MessagesState = {"messages": [HumanMessage(said)]}
            result = agent.invoke(state, {"configurable": {"thread_id": thread}}, context=User("Ana"))
            print(result["messages"][-1].text)


if __name__ == "__main__":
    main()
