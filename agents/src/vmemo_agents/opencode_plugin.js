// Memory for OpenCode, written by `vmemo install` and deleted by `vmemo uninstall`.
// Each event starts the hook for a moment, which asks a local server. Errors go to the hook's log, never to the session.
import { spawn } from "node:child_process"

const HOOK = ["vmemo-hook"]
const SECONDS = { SessionStart: 9, UserPromptSubmit: 4, Stop: 3 }

function hook(event) {
  return new Promise((resolve) => {
    let out = ""
    const done = () => {
      try {
        resolve(JSON.parse(out).hookSpecificOutput?.additionalContext ?? "")
      } catch {
        resolve("")
      }
    }
    try {
      const child = spawn(HOOK[0], HOOK.slice(1), { stdio: ["pipe", "pipe", "ignore"] })
      const timer = setTimeout(() => child.kill(), SECONDS[event.hook_event_name] * 1000)
      child.stdout.on("data", (data) => (out += data))
      child.on("error", done)
      child.on("close", () => {
        clearTimeout(timer)
        done()
      })
      child.stdin.on("error", () => {})
      child.stdin.end(JSON.stringify(event))
    } catch {
      resolve("")
    }
  })
}

// The entry point of OpenCode 1.
const server = async ({ client, directory }) => {
  const started = new Map()
  const recalled = new Map()

  const common = (name, sessionID) => ({ hook_event_name: name, session_id: sessionID, cwd: directory })

  const retain = async (sessionID) => {
    try {
      const found = await client.session.messages({ path: { id: sessionID } })
      const messages = found?.data ?? found
      if (Array.isArray(messages) && messages.length) await hook({ ...common("Stop", sessionID), messages })
    } catch {}
  }

  return {
    "chat.message": async (input, output) => {
      const said = (output.parts ?? []).filter((part) => part.type === "text" && !part.synthetic)
      const prompt = said.map((part) => part.text).join("\n")
      if (!started.has(input.sessionID)) {
        started.set(input.sessionID, await hook({ ...common("SessionStart", input.sessionID), source: "startup" }))
      }
      recalled.set(input.sessionID, await hook({ ...common("UserPromptSubmit", input.sessionID), prompt }))
    },
    "experimental.chat.system.transform": async (input, output) => {
      for (const known of [started, recalled]) {
        const text = input.sessionID && known.get(input.sessionID)
        if (text) output.system.push(text)
      }
    },
    "experimental.session.compacting": async (input) => {
      await retain(input.sessionID)
      started.delete(input.sessionID)
    },
    event: async ({ event }) => {
      if (event.type === "session.idle") await retain(event.properties.sessionID)
    },
  }
}

// The entry point of OpenCode 2: one hook that runs before every call of the model, and a stream of events.
const setup = async (ctx) => {
  const known = new Map()
  const common = (name, sessionID) => ({ hook_event_name: name, session_id: sessionID, cwd: ctx.location.directory })

  await ctx.session.hook("context", async (event) => {
    const asked = (event.messages ?? []).filter((message) => message.role === "user")
    const content = asked.at(-1)?.content ?? []
    const parts = typeof content === "string" ? [{ type: "text", text: content }] : content
    const prompt = parts.filter((part) => part.type === "text").map((part) => part.text).join("\n")
    const session = known.get(event.sessionID) ?? {}
    known.set(event.sessionID, session)
    session.start ??= await hook({ ...common("SessionStart", event.sessionID), source: "startup" })
    if (session.prompt !== prompt) {
      session.prompt = prompt
      session.recalled = await hook({ ...common("UserPromptSubmit", event.sessionID), prompt })
    }
    for (const text of [session.start, session.recalled]) if (text) event.system.push({ type: "text", text })
  })

  const retain = async (sessionID) => {
    try {
      const read = ctx.session.messages ?? ctx.session.context
      const found = await read({ sessionID })
      const messages = found?.data ?? found
      if (Array.isArray(messages) && messages.length) await hook({ ...common("Stop", sessionID), messages })
    } catch {}
  }

  const stop = new AbortController()
  const watching = (async () => {
    for await (const event of ctx.event.subscribe({ signal: stop.signal })) {
      if (event.type === "session.execution.settled") await retain(event.data.sessionID)
    }
  })().catch(() => {})
  return async () => {
    stop.abort()
    await watching
  }
}

export default { id: "vmemo", server, setup }
