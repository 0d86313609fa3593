"""A crew that remembers the results of its tasks in one run and uses them in the next."""

from crewai import LLM, Agent, Crew, Task

from vmemo import Memory
from vmemo_integrations.crewai import crew_memory


def main() -> None:
    """Run a crew twice; each run is a new crew on the same memory."""
    llm = LLM(model="openai/gpt-5-mini")
    with Memory("memory.db", bank="kitchen") as memory:
        for request in "Note that Ana is allergic to peanuts.", "Suggest a snack for Ana.":
            cook = Agent(role="Cook", goal="Feed the guests", backstory="You know everybody's taste.", llm=llm)
            task = Task(description=request, expected_output="One sentence.", agent=cook)
            crew = Crew(agents=[cook], tasks=[task], memory=crew_memory(memory, llm=llm))
            print(crew.kickoff())


if __name__ == "__main__":
    main()
