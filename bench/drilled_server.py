"""An HTTP endpoint for `bench.drilling`: a small asyncio server that answers 200 to a whole body, 422 to any other."""

import asyncio
import re
import sys

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


async def main(whole: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                found = _LENGTH.search(head)
                body = await reader.readexactly(int(found[1]) if found else 0)
                status = b"200 OK" if body == whole else b"422 Unprocessable"
                writer.write(b"HTTP/1.1 %b\r\nContent-Length: 2\r\n\r\nok" % status)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(bytes.fromhex(sys.argv[1])))
