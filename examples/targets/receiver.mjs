// A receiver in Node, without any package: it checks the signature, asks for time while it is busy, and answers.
//
//   SECRET=$(jqmaster webhooks secret) node examples/targets/receiver.mjs 8003
//
//   curl -X PUT localhost:8080/api/targets/photos -H 'Content-Type: application/json' \
//     -d '{"names": ["photo.*"], "url": "http://127.0.0.1:8003/{name}", "secret": "'$SECRET'"}'
import { createHmac, timingSafeEqual } from "node:crypto"
import { createServer } from "node:http"

const secret = Buffer.from(process.env.SECRET.replace(/^whsec_/, ""), "base64")
const mostAtOnce = Number(process.env.MOST_AT_ONCE ?? 4)
let running = 0

const isSigned = (request, body) => {
  const { "webhook-id": id, "webhook-timestamp": at, "webhook-signature": given = "" } = request.headers
  if (Math.abs(Date.now() / 1000 - Number(at)) > 300) return false
  const expected = Buffer.from("v1," + createHmac("sha256", secret).update(`${id}.${at}.`).update(body).digest("base64"))
  return given.split(" ").some((one) => one.length === expected.length && timingSafeEqual(Buffer.from(one), expected))
}

const answer = (response, status, value, headers = {}) =>
  response.writeHead(status, { "Content-Type": "application/json", ...headers }).end(JSON.stringify(value))

const parsed = (body) => {
  try {
    return JSON.parse(body)
  } catch {
    return undefined
  }
}

createServer(async (request, response) => {
  const parts = []
  for await (const part of request) parts.push(part)
  const body = Buffer.concat(parts)
  if (!isSigned(request, body)) return answer(response, 401, { error: "the signature is missing or wrong" })
  const photo = parsed(body)
  if (!photo?.id) return answer(response, 422, { error: "id is missing" }) // it fails for good
  // The job goes back to the queue without using a retry.
  if (running >= mostAtOnce) return answer(response, 503, { error: "busy" }, { "Retry-After": "1" })
  running += 1
  try {
    await new Promise((done) => setTimeout(done, 20))
    answer(response, 200, { id: photo.id, width: photo.size ?? 256, attempt: Number(request.headers["jq-attempt"]) })
  } finally {
    running -= 1
  }
}).listen(Number(process.argv[2]), "127.0.0.1")
