# attnviz in a container: docker build -t attnviz . && docker run --rm -p 127.0.0.1:8501:8501 attnviz
FROM python:3.11-slim

# The address of an index of CPU builds of torch, as PyTorch's install page names it: without it, gigabytes of CUDA.
ARG TORCH_INDEX=""

RUN useradd --create-home attnviz
WORKDIR /home/attnviz/app
COPY requirements.txt .
RUN if [ -n "$TORCH_INDEX" ]; then \
      PIP_INDEX_URL="$TORCH_INDEX" pip install --no-cache-dir --no-deps "$(grep '^torch==' requirements.txt)"; \
    fi && pip install --no-cache-dir -r requirements.txt
COPY app.py ./
COPY .streamlit .streamlit
COPY attnviz attnviz
COPY assets assets
RUN python -m compileall -q attnviz

USER attnviz
EXPOSE 8501
HEALTHCHECK CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8501/_stcore/health', timeout=3)"]
# Inside the container every interface; `docker run -p 127.0.0.1:8501:8501` keeps it on this machine.
CMD ["python", "-m", "attnviz", "app", "--address", "0.0.0.0", "--no-browser"]
